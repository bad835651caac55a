"""compile on a GPU: fused kernels give the bits of single ones, and nobody waits for them."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "compiler"))
import test_fused_programs as programs

COUNT = int(os.environ.get("RUSHLIGHT_FUSED_PROGRAMS_CUDA", "40"))
WAIT = {"wait_for_code": True}


def same(a, b):
    return a.dtype == b.dtype and programs.bits(a.cpu()) == programs.bits(b.cpu())


@pytest.mark.parametrize("part", range(4))
def test_random_programs(part):
    fused = rl.compile(lambda p, inputs: p.run(inputs), options=WAIT)
    rl.compiler.reset()
    for seed in range(part * COUNT // 4, (part + 1) * COUNT // 4):
        program = programs.Program(np.random.default_rng(seed))
        inputs = [x.cuda() for x in program.inputs]
        (raised, want), (raised_too, got) = program.run(inputs), fused(program, inputs)
        assert raised == raised_too
        for a, b in zip(want, got, strict=True):
            assert a.stride() == b.stride() and same(a, b), seed
    assert rl.compiler.stats()["fused"] > COUNT // 4


@pytest.mark.parametrize("dtype", programs.FLOATS)
def test_gradients_of_chains(dtype):
    def chain(x, y):
        a = (x * y + 0.5).tanh() * x.sigmoid()
        b = nn.functional.gelu(a) / (y.abs() + 1)
        return rl.where(b > 0, b, a * 2).exp()

    x, y = (rl.randn(70, 80).to(dtype).cuda() for _ in range(2))
    want = programs.gradients(chain, (x, y))
    got = programs.gradients(rl.compile(chain, options=WAIT), (x, y))
    for a, b in zip(want, got, strict=True):
        assert same(a, b)


class Block(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.norm, self.up, self.gate = (
            nn.LayerNorm(width),
            nn.Linear(width, 256),
            nn.Linear(width, 256),
        )
        self.down = nn.Linear(256, width)

    def forward(self, x):
        h = self.norm(x)
        return x + self.down(nn.functional.silu(self.gate(h)) * self.up(h)) * 0.5


class Image(nn.Module):
    """Convolutions, group norms and a residual, as U-Nets have them."""

    def __init__(self, width=32):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.norms = nn.ModuleList(nn.GroupNorm(groups, width) for groups in (8, 4, 32, 1))
        self.convs = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(4))
        self.last = nn.Linear(width, 10)

    def forward(self, x):
        x = self.first(x)
        for norm, conv in zip(self.norms, self.convs, strict=True):
            x = x + conv(nn.functional.silu(norm(x)))
        return self.last(x.mean((2, 3)))


def rows():
    model = nn.Sequential(nn.Linear(16, 64), Block(), Block(), nn.Linear(64, 10))
    return model, rl.randn(32, 16)


def wide_rows():
    model = nn.Sequential(nn.Linear(16, 768), Block(768), Block(768), nn.Linear(768, 10))
    return model, rl.randn(4096, 16)


def images():
    return Image(), rl.randn(32, 3, 18, 22)


class Mixed(nn.Module):
    """Convolutions of all kinds, between images large enough that sums take two stages."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 48, 5, 2, padding=2)
        self.grouped = nn.Conv2d(48, 64, 3, padding=1, groups=4)
        self.time = nn.Linear(8, 64)
        self.norm, self.point = nn.GroupNorm(8, 64), nn.Conv2d(64, 96, 1)
        self.wide = nn.Conv2d(96, 96, (3, 7), padding=(1, 3), bias=False)
        self.back = nn.ConvTranspose2d(96, 48, 2, 2)
        self.out = nn.Conv2d(48, 3, 3, padding=1)
        self.norm2, self.last = nn.GroupNorm(3, 3), nn.Linear(3, 10)

    def forward(self, x):
        t = rl.sin(x[:, 0, :2, :4].reshape(len(x), 8))
        y = self.grouped(self.first(x)) + self.time(t)[:, :, None, None]
        y = nn.functional.gelu(self.wide(self.point(nn.functional.silu(self.norm(y)))))
        y = self.norm2(self.out(self.back(y)) + x)
        return self.last(y.mean((2, 3)))


def mixed_images():
    return Mixed(), rl.randn(16, 3, 64, 64)


class Residual(nn.Module):
    """Batch norms with activations and sums behind them, as networks for images have them."""

    def __init__(self, width, activation):
        super().__init__()
        self.narrow = nn.Conv2d(width, width // 2, 1, bias=False)
        self.deep = nn.Conv2d(width // 2, width // 2, 3, padding=1, groups=width // 2, bias=False)
        self.wide = nn.Conv2d(width // 2, width, 1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(n) for n in (width // 2, width // 2, width))
        self.activation = activation

    def forward(self, x):
        y = self.activation(self.norms[0](self.narrow(x)))
        y = self.activation(self.norms[1](self.deep(y)))
        return self.activation(self.norms[2](self.wide(y)) + x)


def batch_norms(size=20, width=24, activation=nn.functional.relu):
    blocks = [Residual(width, activation) for _ in range(3)]
    shared = nn.BatchNorm2d(width, affine=False)  # whose result nothing follows
    model = nn.Sequential(
        nn.Conv2d(3, width, 3, 2), nn.BatchNorm2d(width), *blocks, shared, nn.Flatten(2),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(width, 10),
    )  # fmt: skip
    return model, rl.randn(12, 3, size, size)


def large_batch_norms():  # which eager normalises by two launches
    return batch_norms(160, 128, nn.functional.relu6)


def odd_batch_norms():
    return batch_norms(23, 10, nn.functional.silu)


def train(make, parts=rows, steps=4):
    rl.manual_seed(0)
    model, x = parts()
    model, x = model.cuda(), x.cuda()
    run = make(model)
    optimizer = rl.optim.AdamW(model.parameters(), lr=1e-2)
    y = rl.randint(0, 10, (len(x),)).cuda()
    losses = []
    for _ in range(steps):
        with rl.autocast("cuda", dtype=rl.bfloat16):
            loss = nn.functional.cross_entropy(run(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [*losses, *model.state_dict().values()]


PARTS = [rows, wide_rows, images, mixed_images, batch_norms, large_batch_norms, odd_batch_norms]


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("options", [{}, WAIT], ids=["beside", "waited for"])
def test_training_gives_the_same_bits(options, parts, monkeypatch):
    monkeypatch.setattr(rl.backends.cudnn, "deterministic", True)  # also that eager repeats itself

    def fused(model):
        return rl.compile(model, options=options)

    for a, b in zip(train(lambda m: m, parts), train(fused, parts), strict=True):
        assert same(a, b)


@pytest.mark.parametrize("parts", [batch_norms, large_batch_norms, odd_batch_norms])
@pytest.mark.parametrize("layout", [rl.contiguous_format, rl.channels_last])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norms_in_float32(parts, layout, training, monkeypatch):
    """With results and gradients that others hold, and statistics that do not change any more."""
    monkeypatch.setattr(rl.backends.cudnn, "deterministic", True)

    def run(compiled):
        rl.manual_seed(0)
        model, x = parts()
        model = model.cuda().to(memory_format=layout).train(training)
        x = x.cuda().requires_grad_()
        kept = []

        def hold(module, args, y):
            y.register_hook(kept.append)
            kept.append(y)

        model[3].norms[1].register_forward_hook(hold)
        step = rl.compile(model, options=WAIT) if compiled else model
        for _ in range(2):
            step(x).square().mean().backward()
        grads = [p.grad for p in model.parameters()]
        return [x.grad, *kept, *grads, *model.buffers()]

    for a, b in zip(run(False), run(True), strict=True):
        assert a.stride() == b.stride() and same(a, b)


@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16])
def test_gradients_of_half_norms_that_do_not_train(dtype):
    """Their statistics have the half type, too."""
    norm = nn.BatchNorm2d(24).eval()
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2)
    x = rl.randn(4, 24, 9, 9)
    wide = [t.grad for t in gradients_through(norm, x)]
    narrow = [t.grad for t in gradients_through(norm.to("cuda", dtype), x.to("cuda", dtype))]
    for a, b in zip(wide, narrow, strict=True):
        assert rl.allclose(a, b.cpu().float(), rtol=0.03, atol=0.03 * float(a.abs().max()))


def gradients_through(norm, x):
    x = x.detach().requires_grad_()
    norm.zero_grad()
    (norm(x) * x.detach().cos()).sum().backward()
    return [x, norm.weight, norm.bias]


@pytest.mark.parametrize("dtype", [rl.bfloat16, rl.float16])
def test_sums_and_layouts_that_wait(dtype, monkeypatch):
    """Gradients of biases, norms and weights, read in any order, twice accumulated, and kept."""
    monkeypatch.setattr(rl.backends.cudnn, "deterministic", True)

    def gradients(compiled, parts, order):
        rl.manual_seed(0)
        model, x = parts()
        model, x = model.cuda(), x.cuda()
        run = rl.compile(model, options=WAIT) if compiled else model
        for _ in range(2):  # the second is added to the first
            with rl.autocast("cuda", dtype=dtype):
                loss = run(x).square().mean()
            loss.backward()
        parameters = list(model.parameters())
        grads = [p.grad for p in parameters[::order]]
        assert all(p.grad.stride() == p.stride() for p in parameters)
        first = grads[3].clone()
        model.zero_grad(set_to_none=True)
        return [first, *(g.clone() for g in grads[::order])]

    for parts in (wide_rows, images, mixed_images):
        for order in (1, -1):
            both = [gradients(compiled, parts, order) for compiled in (False, True)]
            for a, b in zip(*both, strict=True):
                assert same(a, b)


@pytest.mark.parametrize("keepdim", [False, True])
def test_sums_down_columns(keepdim):
    def f(x):
        s = x.sum((0, 1), keepdim=keepdim)
        return s.float(), x.float().sum(0, keepdim=keepdim), s * 2, x.sum(1, keepdim=keepdim)

    for dtype in (rl.float32, rl.bfloat16, rl.float16):
        for shape in ((4, 2048, 64), (2, 700, 33), (2, 64, 8), (3, 5000, 96)):
            x = rl.randn(shape).cuda().to(dtype)
            for a, b in zip(f(x), rl.compile(f, options=WAIT)(x), strict=True):
                assert same(a, b)


def test_streams_events_and_graphs():
    x = rl.randn(1000).cuda()
    side = rl.cuda.Stream()

    @rl.compile(options=WAIT)
    def f(x):
        y = x * 2 + 1
        side.wait_stream(rl.cuda.current_stream())
        with rl.cuda.stream(side):
            z = y * 3 + x
        rl.cuda.current_stream().wait_stream(side)
        return z - y

    assert same(f(x), (x * 2 + 1) * 3 + x - (x * 2 + 1))

    chain = rl.compile(lambda x: (x * 2 + 1).tanh() - x, options=WAIT)
    want = chain(x)
    graph = rl.cuda.CUDAGraph()
    with rl.cuda.graph(graph):
        out = chain(x)
    graph.replay()
    assert same(out, want)
    x.add_(1)
    graph.replay()
    assert same(out, (x * 2 + 1).tanh() - x)


@pytest.mark.parametrize("dtype", programs.FLOATS)
@pytest.mark.parametrize("shape", [(1, 8, 1, 64), (2, 3, 7, 64), (2, 3, 5, 6)])
def test_halves_that_are_turned(dtype, shape):
    def turn(x, cos, sin):
        a, b = x.chunk(2, -1)
        return x * cos + rl.cat((-b, a), -1) * sin

    def partly(x, cos, sin):
        a, b = x[..., :2], x[..., 2:]
        return rl.cat((a * 2 + 1, b.abs()), -1) * cos, rl.cat((x, x), 0) * sin

    x = rl.randn(shape).to(dtype).cuda()
    cos, sin = (rl.randn(shape[-2:]).to(dtype).cuda() for _ in range(2))
    rl.compiler.reset()
    for function in (turn, partly):
        for given in (x, x.mT.contiguous().mT):
            compiled = rl.compile(function, options=WAIT)
            results = (f(given, cos, sin) for f in (function, compiled))
            for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in results), strict=True):
                assert a.stride() == b.stride() and same(a, b)
    want = programs.gradients(turn, (x, cos, sin))
    got = programs.gradients(rl.compile(turn, options=WAIT), (x, cos, sin))
    assert all(same(a, b) for a, b in zip(want, got, strict=True))
    assert rl.compiler.stats()["fused"] > 0


# ---- products and relu in one launch ----


@pytest.fixture
def repeatable():
    """Convolutions whose gradients have the same bits each time."""
    before = rl.backends.cudnn.deterministic
    rl.backends.cudnn.deterministic = True
    yield
    rl.backends.cudnn.deterministic = before


def relu_of_both(layer, x):
    """What an eager and a compiled relu(layer(x)) give, and their gradients."""
    found = []
    fused = rl.compile(lambda x: nn.functional.relu(layer(x)), options=WAIT)
    # The second compiled call finds that the library's relu was tried.
    for f in (lambda x: nn.functional.relu(layer(x)), fused, fused):
        layer.zero_grad()
        own = x.detach().requires_grad_()
        y = f(own)
        y.sum().backward()
        found.append([y.detach(), own.grad, *(p.grad.clone() for p in layer.parameters())])
    return found


def check_alike(found):
    for others in found[1:]:
        for a, b in zip(found[0], others, strict=True):
            assert same(a, b)


@pytest.mark.parametrize("tf32", [False, True])
@pytest.mark.parametrize(
    ("rows", "width", "outs"), [(1000, 256, 256), (4096, 256, 128), (131, 100, 77), (64, 64, 32)]
)
def test_relu_in_the_launch_of_a_product(rows, width, outs, tf32, monkeypatch):
    monkeypatch.setattr(rl.backends.cuda.matmul, "allow_tf32", tf32)
    layer = nn.Linear(width, outs).cuda()
    x = rl.randn(rows, width, device="cuda")
    x[3, 5], x[7, 1], x[8, 2] = float("nan"), float("inf"), -float("inf")
    rl.compiler.reset()
    check_alike(relu_of_both(layer, x))
    # cuBLASLt's kernels for TF32 make 0 of nan, so relu is not left to them.
    assert tf32 or rl.compiler.stats()["fused"] >= 4


@pytest.mark.parametrize(
    ("batch", "inputs", "outputs", "size"),
    [
        (16, 3, 64, 112),
        (16, 64, 64, 112),
        (16, 64, 128, 56),
        (32, 256, 256, 28),
        (64, 512, 512, 14),
    ],
)
def test_relu_in_the_launch_of_a_convolution(repeatable, batch, inputs, outputs, size):
    layer = nn.Conv2d(inputs, outputs, 3, padding=1).cuda()
    x = rl.randn(batch, inputs, size, size, device="cuda")
    x[0, 1, 3, 5], x[1, 0, 7, 1], x[1, 2, 8, 2] = float("nan"), float("inf"), -float("inf")
    rl.compiler.reset()
    found = relu_of_both(layer, x)
    assert found[0][0].isnan().any() and (found[0][0] == 0).any()
    check_alike(found)
    assert rl.compiler.stats()["fused"] >= 4


# ---- rows that are looked up, and cat ----


def test_rows_are_looked_up_into_their_places():
    tables = [rl.randn(50, width, device="cuda") for width in (128, 64, 3)]
    index = rl.randint(0, 50, (20_000,), device="cuda")
    more = rl.randn(20_000, 5, device="cuda")

    def f():
        rows = [nn.functional.embedding(index, t) for t in tables]
        return rl.cat([*rows[:2]], 1), rl.cat([rows[0], more, *rows[1:]], dim=-1), rows[1] + 1

    for a, b in zip(f(), rl.compile(f, options=WAIT)(), strict=True):
        assert same(a, b)
    bad = index.clone()
    bad[7] = 50
    with pytest.raises(IndexError, match="embedding"):
        rl.compile(lambda: rl.cat([nn.functional.embedding(bad, t) for t in tables[:2]], 1))()
        rl.cuda.synchronize()


def test_a_part_of_a_join_that_the_program_holds():
    a, b, c = (rl.randn(3000, 64, device="cuda") for _ in range(3))

    def f(later):
        product = a * b
        joined = rl.cat([product, c.relu()], 1)
        total = joined @ joined.T
        return (total, product.sin()) if later else (total,)

    for later in (False, True):
        rl.compiler.reset()
        got = rl.compile(f, options=WAIT)(later)
        for x, y in zip(f(later), got, strict=True):
            assert same(x, y)
