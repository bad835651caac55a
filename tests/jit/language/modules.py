"""Modules: parameters, buffers, attributes, submodules, exports."""
# ruff: noqa: C416

from typing import Final

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import Tensor, jit, nn

MODULES = []


def shown(*inputs):
    """Marks a module class as a case: an instance of it is called with each of these tuples."""

    def note(cls):
        MODULES.append((cls, inputs))
        return cls

    return note


X = torch.arange(12.0).reshape(3, 4) / 7 - 0.8


@shown((X,))
class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 5)
        self.second = nn.Linear(5, 2)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.second(self.drop(F.relu(self.first(x))))


@shown((X, 2), (X, 0))
class Repeats(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, n: int):
        for _ in range(n):
            x = torch.tanh(self.layer(x))
        return x


@shown((X,))
class Stacked(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.by_name = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Linear(4, 2)})

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x) * (i + 1)
            if i < len(self.layers) - 1:
                x = x.relu()
        total = self.layers[0](x).sum()
        for name, head in self.by_name.items():
            total = total + head(x).sum() * len(name)
        return total + self.by_name["a"](x).sum()


@shown((X,))
class Buffers(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("steps", torch.tensor(0))
        self.scale = nn.Parameter(torch.ones(4) * 2)

    def forward(self, x):
        self.steps += 1
        self.mean = self.mean * 0.9 + x.mean(0) * 0.1
        return (x - self.mean) * self.scale, self.steps


@shown((X,), (X * 2,))
class Attributes(nn.Module):
    limit: Final[int] = 3
    names: list[str]

    def __init__(self):
        super().__init__()
        self.count = 0
        self.factor = 0.5
        self.names = ["a"]
        self.table: dict[str, int] = {"x": 1}

    def forward(self, x):
        self.count += 1
        self.names.append(str(self.count))
        self.factor = self.factor * 2
        if self.count < self.limit:
            self.table["x"] += 1
        return x * self.factor, self.count, self.names, self.table


@shown((X,))
class Modes(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        x = self.norm(x)
        if self.training:
            return x * 2
        return x


@shown((X, None), (X, X))
class OptionalInput(nn.Module):
    def forward(self, x, y: Tensor | None = None):
        if y is not None:
            x = x + y
        return x


@shown((X,))
class Methods(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def helper(self, x: Tensor, k: int = 2) -> tuple[Tensor, int]:
        return self.layer(x) * k, k + 1

    def forward(self, x):
        a, n = self.helper(x)
        b, _ = self.helper(x, k=n)
        return a + b

    @jit.export
    def encode(self, x):
        return self.forward(x).relu()


@shown((X,))
class NoneModules(nn.Module):
    def __init__(self, use=False):
        super().__init__()
        self.norm = nn.LayerNorm(4) if use else None
        self.bias = None

    def forward(self, x):
        if self.norm is not None:
            x = self.norm(x)
        if self.bias is not None:
            x = x + self.bias
        return x


@shown((X,))
class Inherits(Perceptron):
    def forward(self, x):
        return super().forward(x) * 2


@shown((X,))
class SharedLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = self.a

    def forward(self, x):
        return self.b(self.a(x))


@shown((X,))
class Unused(nn.Module):
    def __init__(self):
        super().__init__()
        self.debug = False

    @jit.unused
    def report(self, x: Tensor) -> Tensor:
        print({k for k in "abc"})
        return x

    def forward(self, x):
        if self.debug:
            return self.report(x)
        if not jit.is_scripting():
            x = x + 0
        return x


@shown((torch.arange(30.0).reshape(5, 2, 3) / 20,))
class CellLoop(nn.Module):
    """A recurrent layer whose number of steps depends on the data."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(3, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, x) -> tuple[Tensor, int]:
        h = torch.zeros(x.size(1), 4)
        c = torch.zeros(x.size(1), 4)
        steps = 0
        outputs: list[Tensor] = []
        for t in range(x.size(0)):
            h, c = self.cell(x[t], (h, c))
            y = self.head(h)
            outputs.append(y)
            steps += 1
            if bool(y.abs().mean() > 0.6):
                break
        return torch.stack(outputs).sum(0), steps


@shown((torch.arange(24.0).reshape(2, 4, 3) / 20,))
class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(3, 4, batch_first=True)
        self.gru = nn.GRU(4, 2)

    def forward(self, x):
        y, (h, c) = self.rnn(x)
        z, g = self.gru(y)
        return z, h, c, g


@shown((torch.arange(24.0).reshape(2, 4, 3) / 20,))
class Attends(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(3, 1, batch_first=True)
        self.layer = nn.TransformerEncoderLayer(3, 1, 8, batch_first=True)

    def forward(self, x):
        y, w = self.attention(x, x, x)
        assert w is not None
        return self.layer(y), w


@shown((torch.arange(128.0).reshape(1, 2, 8, 8) / 60 - 1,))
class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2)
        )
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.back = nn.ConvTranspose2d(4, 2, 2, stride=2)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        y = self.body(x)
        z = self.up(y) + x.repeat(1, 2, 1, 1)
        return F.cross_entropy(self.head(z).flatten(0, 2), torch.zeros(32).long()), self.back(y)


@shown((torch.tensor([[1, 2, 0], [3, 3, 1]]),))
class Generates(nn.Module):
    """Greedy decoding: each turn appends what the model likes best."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5)

    def forward(self, tokens, most: int = 4):
        for _ in range(most):
            logits = self.head(self.embed(tokens).mean(1))
            best = logits.argmax(-1, keepdim=True)
            tokens = torch.cat([tokens, best], dim=1)
            if bool((best == 0).all()):
                break
        return tokens
