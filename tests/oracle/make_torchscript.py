"""Writes tests/data/torchscript_*.pt: archives of PyTorch's jit.save, and what they compute.

Run it with a Python that has PyTorch 2.13: `python tests/oracle/make_torchscript.py`. Each archive
has the extra file `calls.pt`: a list of (method, inputs, outputs) by torch.save.
"""

import io
import pathlib
from enum import Enum
from typing import Dict, List, NamedTuple, Optional, Tuple  # noqa: UP035

import torch
from torch import nn
from torch.nn import functional as F

# ruff: noqa: UP006, UP045
DATA = pathlib.Path(__file__).resolve().parents[1] / "data"


@torch.jit.script
def scaled(x, k: float):
    return x * k + 1


class Pair(NamedTuple):
    first: torch.Tensor
    count: int


class Level(Enum):
    LOW = 1
    HIGH = 2


@torch.jit.script
class Item:
    def __init__(self, value: float, place: Optional[int]):
        self.value, self.place = value, place


@torch.jit.script
class Box:
    def __init__(self, best: Item):
        self.best = best
        self.items = [best]
        self.by_name: Dict[str, Item] = {}

    def put(self, name: str, item: Item) -> int:
        self.by_name[name] = item
        self.items.append(item)
        if self.best.value < item.value:
            self.best = item
        return len(self.items)


class Objects(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.5, -2.0]))

    def forward(self, x, n: int):
        box, count = Box(Item(0.5, None)), 0
        for i in range(n):
            count = box.put(str(i), Item(float(i) * 0.4, i))
        place = box.best.place
        level = Level.LOW if place is None else Level.HIGH
        first = box.items[0] is box.best
        return x * self.weight * box.best.value, count, first, len(box.by_name), level == Level.HIGH


class Control(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.k = 2
        self.register_buffer("steps", torch.zeros(1))
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])

    def forward(self, x, n: int = 3, names: Optional[List[str]] = None) -> Tuple[torch.Tensor, int]:
        for i in range(n):
            if bool(x.sum() > 0):
                x = self.lin(x)
            else:
                x = x - 1.5 * i
        for layer in self.layers:
            x = torch.relu(layer(x))
        found: Dict[str, int] = {}
        if names is not None:
            for s in names:
                found[s] = len(s)
        self.steps += 1
        while n < 10 and not bool(x.isnan().any()):
            n += 1
        return x, n + self.k + len(found)

    @torch.jit.export
    def parts(self, x, limit: int) -> Pair:
        if x.size(0) < limit:
            return Pair(scaled(x, 2.0), 1)
        y = x[0:2, :, None] * torch.arange(3, dtype=torch.float32)
        if limit < 0:
            raise ValueError(f"limit is {limit}")
        rows: List[torch.Tensor] = []
        for row in y:
            rows.append(row.mean(dim=-1))
        rows[0] = rows[0].clamp(min=0.1)
        return Pair(torch.stack(rows)[..., -1], limit // 2 - limit % 3)


class ConvNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)
        self.pool = nn.MaxPool2d(2)
        self.drop = nn.Dropout(0.1)
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        x = self.pool(torch.relu(self.bn(self.conv(x))))
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        return F.log_softmax(self.fc(self.drop(x)), 1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 3)
        self.lstm = nn.LSTM(3, 4, num_layers=2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(8, 2)

    def forward(self, tokens):
        y, (h, c) = self.lstm(self.embed(tokens))
        return self.out(y[:, -1]), h, c


class Block(nn.Module):
    def __init__(self, a, b, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(a, b, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(b)
        self.conv2 = nn.Conv2d(b, b, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(b)
        self.down = (
            nn.Sequential(nn.Conv2d(a, b, 1, stride, bias=False), nn.BatchNorm2d(b))
            if a != b
            else None
        )

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)), inplace=True)))
        return F.relu_(y + (x if self.down is None else self.down(x)))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, 2, 1, bias=False)
        self.blocks = nn.Sequential(Block(4, 4, 1), Block(4, 6, 2))
        self.up = nn.ConvTranspose2d(6, 3, 2, 2)
        self.fc = nn.Linear(6, 5)

    def forward(self, x):
        x = self.blocks(self.stem(x))
        pooled = x.mean((2, 3))
        return {"scores": self.fc(pooled).softmax(-1), "map": self.up(x).to(torch.float64)}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.qkv = nn.Linear(8, 24)
        self.act = nn.GELU()

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        mask = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
        scores = (q @ k.transpose(-2, -1)) * 0.5
        scores = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        return x + self.act((scores @ v).transpose(1, 2).reshape(b, t, c))


class Encoder(nn.Module):
    """In eval mode without gradients its layers call operators of their own."""

    def __init__(self):
        super().__init__()
        self.post = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)
        self.pre = nn.TransformerEncoderLayer(8, 2, 12, 0.1, "gelu", 1e-6, True, norm_first=True)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x, hidden: Optional[torch.Tensor] = None):
        x = self.pre(self.post(x, src_key_padding_mask=hidden))
        y, weights = self.attention(x, x, x)
        return torch.einsum("btc,bsc->bts", [x, y]), weights


class Unknown(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(2, 2)

    def forward(self, x):
        return torch.fbgemm_pack_gemm_matrix_fp16(self.lin(x))


def write(name, module, calls):
    rows = []
    for method, inputs in calls:
        outputs = getattr(module, method)(*inputs)
        outputs = tuple(outputs) if isinstance(outputs, tuple) else outputs
        rows.append((method, inputs, outputs))
    buffer = io.BytesIO()
    torch.save(rows, buffer)
    extra = {"calls.pt": buffer.getvalue()}
    torch.jit.save(module, str(DATA / f"torchscript_{name}.pt"), _extra_files=extra)


def main():
    torch.manual_seed(0)
    x, image = torch.randn(3, 3), torch.randn(2, 3, 8, 8)
    linear = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    write("linear", torch.jit.script(linear), [("forward", (x,))])
    write(
        "control",
        torch.jit.script(Control()),
        [("forward", (x, 2, ["a", "bcd"])), ("parts", (x, 2)), ("parts", (x, 7))],
    )
    pair = torch.tensor([2.0, 3.0])
    write("objects", torch.jit.script(Objects()), [("forward", (pair, 3)), ("forward", (pair, 1))])
    for train in (True, False):
        name = "conv_norm_train" if train else "conv_norm"
        module = ConvNorm().train(train)
        module.drop.p = 0.0 if train else 0.1
        write(name, torch.jit.script(module), [("forward", (image,))])
    tokens = torch.randint(0, 11, (2, 5))
    write("lstm", torch.jit.script(Recurrent()), [("forward", (tokens,))])
    residual = torch.jit.trace(Residual().eval(), image, strict=False)
    write("residual", residual, [("forward", (image,))])
    write("attention", torch.jit.script(Attention()), [("forward", (torch.randn(2, 5, 8),))])
    traced = torch.jit.trace(Attention(), torch.randn(2, 5, 8))
    write("attention_traced", traced, [("forward", (torch.randn(2, 5, 8),))])
    write("unknown", torch.jit.script(Unknown()), [])
    hidden = torch.tensor([[False] * 5, [False, False, False, True, True]])
    x = torch.randn(2, 5, 8)
    with torch.no_grad():
        encoder = torch.jit.script(Encoder().eval())
        write("encoder", encoder, [("forward", (x,)), ("forward", (x, hidden))])


if __name__ == "__main__":
    main()
