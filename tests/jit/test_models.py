"""Programs of whole models: their results, gradients and training have the bits of the modules'."""

import copy
import io
import itertools
import resource
import threading

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and rl.equal(a, b)


class Block(nn.Module):
    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.short = nn.Identity()
        if stride != 1 or c_in != c_out:
            self.short = nn.Sequential(
                nn.Conv2d(c_in, c_out, 1, stride, bias=False), nn.BatchNorm2d(c_out)
            )

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        y += self.short(x)
        return F.relu(y)


class ResNet(nn.Module):
    """ResNet-18's shape, thin."""

    def __init__(self, width=8):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.pool = nn.MaxPool2d(3, 2, 1)
        sizes = [width, width, 2 * width, 4 * width, 8 * width]
        self.layers = nn.Sequential(
            *(
                nn.Sequential(Block(a, b, 1 if i == 0 else 2), Block(b, b, 1))
                for i, (a, b) in enumerate(itertools.pairwise(sizes))
            )
        )
        self.fc = nn.Linear(8 * width, 10)

    def forward(self, x):
        x = self.layers(self.pool(F.relu(self.bn1(self.conv1(x)))))
        return self.fc(rl.flatten(F.adaptive_avg_pool2d(x, 1), 1))


class GPTBlock(nn.Module):
    """Embedding, causal attention, a perceptron, tied output weights."""

    def __init__(self, vocabulary=50, width=32, heads=4, length=16):
        super().__init__()
        self.heads = heads
        self.embed, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        b, t = ids.shape
        x = self.embed(ids) + self.places(rl.arange(t))
        q, k, v = self.qkv(self.ln1(x)).split(x.size(-1), dim=-1)
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, -1))
        return self.head(x + self.mlp(self.ln2(x)))


class LSTMTagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(12, 16, 2, batch_first=True, dropout=0.2)
        self.cell = nn.LSTMCell(16, 8)
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        y, (h, _) = self.rnn(x)
        state = None
        for step in range(3):
            state = self.cell(y[:, step], state)
        return self.fc(state[0]), h


def mlp():
    return nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 10))


def convnet():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(8 * 5 * 5, 10),
    )  # fmt: skip


def floats(*sizes):
    return lambda batch: rl.randn(batch, *sizes)


MODELS = {
    "mlp": (mlp, floats(20)),
    "convnet": (convnet, floats(3, 12, 12)),
    "resnet": (ResNet, floats(3, 32, 32)),
    "gpt": (GPTBlock, lambda batch: rl.randint(0, 50, (batch, 11))),
    "lstm": (LSTMTagger, floats(7, 12)),
    "encoder": (lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), floats(5, 16)),
}


def results(output):
    return list(output) if isinstance(output, tuple) else [output]


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("name", MODELS)
def test_results_gradients_and_buffers_are_the_modules(name, mode):
    make, example = MODELS[name]
    net = make().train(mode == "train")
    traced = rl.jit.trace(copy.deepcopy(net), example(4))
    traced.load_state_dict(net.state_dict())
    loaded = rl.jit.load(io.BytesIO(traced.save_to_buffer()))
    x = example(6)  # another batch size
    found = []
    for function in (net, traced, loaded):
        rl.manual_seed(2)
        out = results(function(x))
        sum(y.square().sum() for y in out).backward()
        grads = [p.grad for p in function.parameters()]
        found.append([*out, *grads, *function.state_dict().values()])
    for other in found[1:]:
        assert len(other) == len(found[0]) and all(map(same, found[0], other))


@pytest.mark.parametrize("name", ["mlp", "convnet"])
def test_training_a_loaded_program(name):
    make, example = MODELS[name]
    net = make()
    loaded = rl.jit.load(io.BytesIO(rl.jit.trace(net, example(3)).save_to_buffer()))
    loaded.load_state_dict(net.state_dict())
    x, target = example(8), rl.randint(0, 10, (8,))
    losses = []
    for module in (net, loaded):
        optimizer = rl.optim.Adam(module.parameters(), lr=1e-2)
        rl.manual_seed(0)
        for _ in range(3):
            loss = F.cross_entropy(module(x), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss)
    assert same(*losses)
    assert all(map(same, net.state_dict().values(), loaded.state_dict().values()))


@pytest.mark.threads
def test_threads_run_one_program_at_the_same_time():
    net = mlp().eval()
    traced = rl.jit.trace(net, rl.randn(2, 20))
    inputs = [rl.randn(64, 20) for _ in range(4)]
    expected = [net(x) for x in inputs]
    wrong = []

    def work(k):
        for _ in range(30):
            if not same(traced(inputs[k]), expected[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_values_are_freed_after_their_last_use():
    def chain(x):
        for _ in range(50):
            x = x + 1
        return x

    traced = rl.jit.trace(chain, rl.zeros(4))
    x = rl.zeros(1 << 18)  # 1 MiB
    traced(x)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    traced(x)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # KiB, not 50 MiB
