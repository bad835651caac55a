"""plan: what a step will take, against what it takes."""

import gc
import sys
from pathlib import Path

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F
from rushlight.profiler import plan

ROOT = Path(__file__).resolve().parents[2]


class Gpt(nn.Module):
    def __init__(self, words=512, width=128, heads=4, depth=2, length=64):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.position = nn.Parameter(rl.zeros(length, width))
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True, norm_first=True,
                                       activation="gelu")
            for _ in range(depth)
        )  # fmt: skip
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight
        self.mask = nn.Transformer.generate_square_subsequent_mask(length)

    def forward(self, ids):
        x = self.embed(ids) + self.position
        for block in self.blocks:
            x = block(x, src_mask=self.mask)
        return self.head(x).flatten(0, 1)


class UNet(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, c, 3, padding=1), nn.GroupNorm(4, c), nn.SiLU())
        self.deep = nn.Sequential(nn.Conv2d(c, 2 * c, 3, padding=1, stride=2),
                                  nn.BatchNorm2d(2 * c), nn.ReLU())  # fmt: skip
        self.up = nn.ConvTranspose2d(2 * c, c, 2, stride=2)
        self.out = nn.Conv2d(2 * c, 3, 3, padding=1)

    def forward(self, x):
        skip = self.down(x)
        return self.out(rl.cat([skip, self.up(self.deep(skip))], 1))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(1000, 64)
        self.lstm = nn.LSTM(64, 128, 2, batch_first=True)
        self.head = nn.Linear(128, 1000)

    def forward(self, ids):
        return self.head(self.lstm(self.embed(ids))[0]).flatten(0, 1)


def mlp():
    return nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Dropout(0.2), nn.Linear(1024, 10))


def ids(*shape):
    return rl.randint(0, 500, shape)


# Model, inputs, target, loss.
CASES = {
    "gpt": lambda: (Gpt(), ids(8, 64), ids(8 * 64), F.cross_entropy),
    "unet": lambda: (UNet(), rl.randn(8, 3, 64, 64), rl.randn(8, 3, 64, 64), F.mse_loss),
    "lstm": lambda: (Lstm(), ids(8, 32), ids(8 * 32), F.cross_entropy),
    "mlp": lambda: (mlp(), rl.randn(128, 256), rl.randint(0, 10, (128,)), F.cross_entropy),
}


def test_gradients_that_take_the_memory_of_what_dies():
    """cross_entropy's gradient is written over the scores: with many classes that is most of it."""
    model, inputs = nn.Linear(64, 8192, bias=False), rl.randn(512, 64)
    target = rl.randint(0, 8192, (512,))
    planned = plan(model, inputs, target=target, loss=F.cross_entropy)
    scores, weights = 512 * 8192 * 4, 64 * 8192 * 4
    assert planned.peak_bytes == pytest.approx(scores + 2 * weights, rel=0.05)


OPTIMIZERS = {"sgd": lambda p: rl.optim.SGD(p, lr=0.1), "adamw": rl.optim.AdamW}


def measured(model, x, target, loss, make):
    """The most that is live during three steps, of what belongs to them."""
    gc.collect()
    other = rl.memory_stats()["allocated"]
    for tensor in {
        t.data_ptr(): t for t in [*model.parameters(), *model.buffers(), x, target]
    }.values():
        other -= tensor.numel() * tensor.element_size()
    optimizer = make(model.parameters())
    rl.reset_peak_memory_stats()
    for _ in range(3):
        optimizer.zero_grad()
        loss(model(x), target).backward()
        optimizer.step()
    return rl.memory_stats()["peak"] - other


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", CASES)
def test_the_peak_is_the_measured_one(name, optimizer):
    model, x, target, loss = CASES[name]()
    make = OPTIMIZERS[optimizer]
    planned = plan(model, x, target=target, loss=loss, optimizer=make)
    assert planned.peak_bytes == pytest.approx(measured(model, x, target, loss, make), rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["alexnet", "resnet50", "mobilenet_v2"])
def test_the_peaks_of_table_1(name):
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import table1_models
    finally:
        sys.path.pop(0)
    task = table1_models.TASKS[name]
    model = task.make(rl, False, 1.0)
    x, target = rl.randn(4, 3, 224, 224), rl.randint(0, 1000, (4,))

    def make(parameters):
        return task.optimizer(rl, parameters, False)

    planned = plan(model, x, target=target, loss=F.cross_entropy, optimizer=make)
    real = measured(model, x, target, F.cross_entropy, make)
    assert planned.peak_bytes == pytest.approx(real, rel=0.05)


def test_what_it_says_of_modules():
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    planned = plan(model, rl.empty(16, 64))
    rows = {m.path: m for m in planned.modules}
    assert list(rows) == ["", "0", "1", "2"]
    assert rows["0"].parameters == 64 * 128 + 128 and rows[""].parameters == planned.parameters
    assert rows["0"].flops == 2 * 16 * 64 * 128 and rows["0"].calls == 1
    # The input needs no gradient: one product backward in the first layer, two in the last.
    assert rows["2"].backward_flops >= 2 * rows["2"].flops
    assert rows["1"].activation_bytes >= 16 * 128 * 4
    assert planned.flops >= rows["0"].flops + rows["2"].flops
    text = str(planned)
    assert "0: Linear" in text and "peak:" in text and "1,290" in text


def test_the_model_is_left_alone():
    model = mlp().eval()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    plan(model, rl.empty(4, 256), optimizer=rl.optim.AdamW)
    assert not model.training and all(p.grad is None for p in model.parameters())
    assert all(rl.equal(v, before[k]) for k, v in model.state_dict().items())
    assert all(not p.is_meta for p in model.parameters())


def test_nothing_is_allocated():
    model = nn.Linear(64, 64)
    rl.reset_peak_memory_stats()
    before = rl.memory_stats()["allocated"]
    planned = plan(model, rl.empty(1 << 20, 64, device="meta"))
    assert planned.peak_bytes > 1 << 28
    assert rl.memory_stats()["peak"] - before < 1 << 20


def test_batches_and_precisions():
    model = mlp()
    planned = plan(model, rl.empty(64, 256), batch_sizes=[64, 128, 1024], precisions=[
        "float32", "bfloat16", "autocast bfloat16"])  # fmt: skip
    peaks = {(f.precision, f.batch): f.peak_bytes for f in planned.table}
    assert peaks["float32", 64] == planned.peak_bytes
    assert peaks["float32", 64] < peaks["float32", 128] < peaks["float32", 1024]
    assert 0.45 < peaks["bfloat16", 1024] / peaks["float32", 1024] < 0.55
    # Weights stay wide and get a narrow copy; what large batches keep is narrow.
    assert peaks["autocast bfloat16", 1024] < peaks["float32", 1024]
    assert not rl.is_autocast_enabled("cpu")


def test_what_fits():
    model = mlp()
    limit = 40 << 20
    planned = plan(model, rl.empty(1, 256), memory=limit, optimizer=rl.optim.AdamW,
                   precisions=["float32", "bfloat16"])  # fmt: skip
    wide, narrow = planned.largest
    assert 1 < wide.batch < narrow.batch and max(wide.peak_bytes, narrow.peak_bytes) <= limit
    (more,) = plan(model, rl.empty(1, 256), optimizer=rl.optim.AdamW,
                   batch_sizes=[wide.batch + 1]).table  # fmt: skip
    assert more.peak_bytes > limit
    (none,) = plan(model, rl.empty(1, 256), memory=1000).largest
    assert none.batch == 0 and "none" in str(plan(model, rl.empty(1, 256), memory=1000))
    assert plan(model, rl.empty(1, 256), memory="cpu", precisions=["float32"]).memory > 0


def test_without_training():
    model = mlp()
    training = plan(model, rl.empty(512, 256))
    calling = plan(model, rl.empty(512, 256), training=False)
    assert calling.peak_bytes < training.peak_bytes and calling.backward_flops == 0
    assert calling.flops > 0


def test_frozen_parameters_and_arguments_by_name():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(64, 64), nn.Linear(64, 64)

        def forward(self, x, *, scale):
            return {"y": self.b(self.a(x)) * scale}

    model = Two()
    whole = plan(model, rl.empty(8, 64), kwargs={"scale": rl.ones(8, 1)})
    model.a.requires_grad_(False)
    part = plan(model, rl.empty(8, 64), kwargs={"scale": rl.ones(8, 1)})
    assert part.backward_flops < whole.backward_flops and part.peak_bytes < whole.peak_bytes


def test_what_cannot_be_planned():
    class Reads(nn.Module):
        def forward(self, x):
            return x * x.sum().item()

    with pytest.raises(RuntimeError, match="without values"):
        plan(Reads(), rl.ones(2, requires_grad=True))
    with pytest.raises(ValueError, match="needs a gradient"):
        plan(nn.ReLU(), rl.ones(2))
    with pytest.raises(ValueError, match="precisions are"):
        plan(mlp(), rl.ones(2, 256), precisions=["int8"])
    with pytest.raises(ValueError, match="precisions is empty"):
        plan(mlp(), rl.ones(2, 256), precisions=[])
    with pytest.raises(ValueError, match="could count samples"):
        plan(mlp(), rl.tensor(1.0))
    with pytest.raises(ValueError, match="needs a loss"):
        plan(mlp(), rl.ones(2, 256), target=rl.ones(2))
    with pytest.raises(ValueError, match="lazy"):
        plan(nn.LazyLinear(3), rl.ones(2, 5))
    with pytest.raises(ValueError, match="shape|sizes|size"):  # the model's own fault, as it is
        plan(mlp(), rl.ones(2, 255))
    with pytest.raises(ValueError, match="device must be a GPU of this machine"):
        plan(mlp(), rl.ones(2, 256), device="meta")


def test_what_libraries_work_in_counts(monkeypatch):
    """Over a GPU that is the CPU, and whose counters say that every call takes a megabyte."""
    from rushlight.profiler import _plan, _workspaces

    tried = []

    class Workspaces(_workspaces.Workspaces):
        def _tried(self, name, func, args, kwargs):
            tried.append(name)
            return super()._tried(name, func, args, kwargs)

    monkeypatch.setattr(_plan, "chosen_gpu", lambda device: device and rl.device(device))
    monkeypatch.setattr(_plan, "Workspaces", Workspaces)
    for name, value in {"reset_peak_memory_stats": None, "memory_allocated": 1 << 20,
                        "max_memory_allocated": 2 << 20}.items():  # fmt: skip
        monkeypatch.setattr(rl.cuda, name, lambda device, value=value: value)
    alike = [nn.Conv2d(8, 8, 3, padding=1) for _ in range(2)]
    model = nn.Sequential(nn.Conv2d(3, 8, 3), *alike, nn.Flatten(), nn.Linear(288, 4))
    alone = plan(model, rl.empty(2, 3, 8, 8))
    both = plan(model, rl.empty(2, 3, 8, 8), device="cpu")
    # Two convolutions are alike, and tried once; so are their gradients.
    assert sorted(tried) == sorted(
        ["aten::conv2d"] * 2 + ["aten::convolution_input_grad"] + ["aten::linear"] * 2
        + ["aten::convolution_weight_grad"] * 2 + ["aten::mm"]
    )  # fmt: skip
    # The largest level before a call, and a megabyte on top of it; the result is part of that.
    assert 1 << 20 < both.peak_bytes <= alone.peak_bytes + (1 << 20)
    assert both.at_peak["temporary"] > (1 << 20) - 4096
    assert sum(both.at_peak.values()) == both.peak_bytes
