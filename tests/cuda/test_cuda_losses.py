"""Losses with many classes on a GPU: what they keep in memory, and linear_cross_entropy."""

import gc

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F

cuda = rl.cuda
Options = nn.LinearCrossEntropyOptions


def peak_of(f):
    """Bytes that f has beyond what is there before, at most."""
    f()
    gc.collect()
    before = cuda.memory_allocated()
    cuda.reset_peak_memory_stats()
    f()
    return cuda.max_memory_allocated() - before


def parts(rows=512, features=64, classes=5000, dtype=rl.float32):
    rl.manual_seed(rows + classes)
    x = rl.randn(rows, features, device="cuda", dtype=dtype, requires_grad=True)
    w = rl.randn(classes, features, device="cuda", dtype=dtype, requires_grad=True)
    b = rl.randn(classes, device="cuda", dtype=dtype, requires_grad=True)
    target = rl.randint(0, classes, (rows,), device="cuda")
    target[3] = -100
    return x, w, b, target


# ---- the gradient in the scores' memory ----


@pytest.mark.parametrize("dtype", [rl.float32, rl.bfloat16, rl.float16], ids=str)
def test_peak_of_a_training_step(dtype):
    x, w, _, target = parts(4096, 64, 16384, dtype)
    size = 4096 * 16384 * x.element_size()

    def train(holds=False):
        x.grad = w.grad = None
        scores = F.linear(x.view(4, 1024, 64), w)
        kept = scores if holds else None
        loss = F.cross_entropy(scores.view(-1, 16384), target)
        del scores
        loss.backward()
        return kept

    gone, held = peak_of(train), peak_of(lambda: train(True))
    assert gone < 1.5 * size  # (a workspace of the products may come to it)
    assert gone < held - 0.95 * size


def test_peak_of_a_training_step_under_autocast():
    x, w, _, target = parts(4096, 64, 16384)

    def train():
        x.grad = w.grad = None
        with rl.autocast("cuda", dtype=rl.bfloat16):
            loss = F.cross_entropy(F.linear(x, w), target)
        loss.backward()

    assert peak_of(train) < 1.5 * 4096 * 16384 * 2


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.bfloat16, rl.float16], ids=str)
@pytest.mark.parametrize("classes", [5, 33, 1000, 1024, 50304])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_same_gradient_in_place(dtype, classes, smoothing):
    x = rl.randn(37, classes, device="cuda", dtype=dtype, requires_grad=True)
    target = rl.arange(37, device="cuda") % classes
    (gone,) = rl.autograd.grad(F.cross_entropy(x * 1, target, label_smoothing=smoothing), x)
    held = x * 1
    (kept,) = rl.autograd.grad(F.cross_entropy(held, target, label_smoothing=smoothing), x)
    assert rl.equal(gone, kept)
    assert rl.equal(held, x)


def test_images_in_place():
    x = rl.randn(3, 21, 40, 50, device="cuda").to(memory_format=rl.channels_last).requires_grad_()
    target = rl.randint(0, 21, (3, 40, 50), device="cuda")
    held = x * 1
    (kept,) = rl.autograd.grad(F.cross_entropy(held, target), x)
    (gone,) = rl.autograd.grad(F.cross_entropy(x * 1, target), x)
    assert rl.equal(gone, kept)


def test_scores_that_somebody_needs():
    x, w, _, target = parts()
    scores = F.linear(x, w)
    values = scores.detach().clone()
    want = rl.autograd.grad(F.cross_entropy(scores, target), (x, w))
    assert rl.equal(scores.detach(), values)
    for keep in (lambda s: s.detach(), lambda s: s[4:6], lambda s: s.view(-1)):
        scores = F.linear(x, w)
        kept = keep(scores)
        loss = F.cross_entropy(scores, target)
        del scores
        got = rl.autograd.grad(loss, (x, w), retain_graph=True)
        again = rl.autograd.grad(loss, (x, w))
        assert rl.equal(kept.detach(), keep(values))
        for a, b, c in zip(got, again, want, strict=True):
            assert rl.equal(a, b) and rl.allclose(a, c, 1e-4, 1e-6)


def test_scores_that_another_stream_reads():
    x, w, _, target = parts(2048, 64, 20000)
    side = cuda.Stream()
    scores = F.linear(x, w)
    values = scores.detach().clone()
    loss = F.cross_entropy(scores, target)
    cuda.synchronize()
    with cuda.stream(side):
        slow = rl.ones(4096, 4096, device="cuda")
        for _ in range(60):
            slow = slow @ slow * 1e-4
        copy = scores.detach().clone()
    scores.record_stream(side)
    del scores
    loss.backward()
    cuda.synchronize()
    assert rl.equal(copy, values)


def test_graphs():
    """A recorded step writes over its own scores, which each replay makes anew."""
    x, w, _, target = parts()

    def step():
        return rl.autograd.grad(F.cross_entropy(F.linear(x, w), target), (x, w))

    want = step()
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        step()
    cuda.current_stream().wait_stream(side)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        got = step()
    for _ in range(3):
        graph.replay()
    assert all(rl.allclose(a, b) for a, b in zip(got, want, strict=True))


# ---- linear_cross_entropy ----


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("chunk", [100, 512, None])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_linear_cross_entropy(reduction, chunk, smoothing):
    x, w, b, target = parts(dtype=rl.float64)
    weight = rl.rand(5000, device="cuda", dtype=rl.float64) + 0.5
    options = Options(batch_chunk_size=chunk) if chunk else None
    kwargs = {"weight": weight, "reduction": reduction, "label_smoothing": smoothing}
    got = F.linear_cross_entropy(x, w, target, linear_bias=b, options=options, **kwargs)
    want = F.cross_entropy(F.linear(x, w, b), target, **kwargs)
    assert rl.allclose(got, want)
    seed = rl.randn(got.shape, device="cuda", dtype=rl.float64)
    for again in (True, False):
        pairs = zip(
            rl.autograd.grad(got, (x, w, b), seed, retain_graph=again),
            rl.autograd.grad(want, (x, w, b), seed, retain_graph=again),
            strict=True,
        )
        assert all(rl.allclose(a, e, 1e-8, 1e-10) for a, e in pairs)


@pytest.mark.parametrize("dtype", [rl.float32, rl.bfloat16, rl.float16], ids=str)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_linear_cross_entropy_of_other_types(dtype, reduction):
    x, w, b, target = parts(1000, 64, 3001, dtype)
    seed = 1024.0  # in float16 the gradients of a mean would vanish without it
    loss = F.linear_cross_entropy(
        x, w, target, linear_bias=b, reduction=reduction, options=Options(batch_chunk_size=300)
    )
    exact = [t.detach().double().requires_grad_() for t in (x, w, b)]
    want = F.cross_entropy(F.linear(*exact), target, reduction=reduction)
    assert loss.dtype == dtype
    bound = 1e-4 if dtype == rl.float32 else 2e-2
    assert ((loss.double() - want).norm() / want.norm()).item() < bound
    got = rl.autograd.grad(loss, (x, w, b), rl.full_like(loss, seed))
    for a, e in zip(got, rl.autograd.grad(want, exact, rl.full_like(want, seed)), strict=True):
        assert a.dtype == dtype
        assert ((a.double() - e).norm() / e.norm()).item() < bound


def test_linear_cross_entropy_under_autocast():
    x, w, b, target = parts(3000, 64, 5000)
    with rl.autocast("cuda", dtype=rl.bfloat16):
        got = F.linear_cross_entropy(x, w, target, linear_bias=b)
        want = F.cross_entropy(F.linear(x, w, b), target)
    assert got.dtype == rl.float32
    assert rl.allclose(got, want, 1e-3, 1e-3)
    pairs = zip(rl.autograd.grad(got, (x, w, b)), rl.autograd.grad(want, (x, w, b)), strict=True)
    for a, e in pairs:
        assert a.dtype == rl.float32
        assert ((a - e).norm() / e.norm()).item() < 1e-2


@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_memory_of_linear_cross_entropy(reduction):
    x, w, _, target = parts(16384, 64, 16384, rl.bfloat16)

    def train():
        x.grad = w.grad = None
        F.linear_cross_entropy(x, w, target, reduction=reduction).sum().backward()

    assert peak_of(train) < 16384 * 16384 * 2 / 4


def test_linear_cross_entropy_does_not_wait(no_waiting):
    x, w, b, target = parts()
    for reduction in ("mean", "none"):
        loss = F.linear_cross_entropy(
            x, w, target, linear_bias=b, reduction=reduction, options=Options(batch_chunk_size=200)
        )
        loss.sum().backward()
    rl.cuda.set_sync_debug_mode("default")
    assert x.grad.isfinite().all().item()


def test_linear_cross_entropy_is_deterministic():
    x, w, b, target = parts(dtype=rl.bfloat16)
    rl.use_deterministic_algorithms(True)
    try:
        runs = [
            rl.autograd.grad(F.linear_cross_entropy(x, w, target, linear_bias=b), (x, w, b))
            for _ in range(3)
        ]
    finally:
        rl.use_deterministic_algorithms(False)
    for run in runs[1:]:
        assert all(rl.equal(a, e) for a, e in zip(run, runs[0], strict=True))


def test_second_derivatives_of_linear_cross_entropy():
    x, w, b, target = parts(6, 3, 4, rl.float64)
    target = target.clamp(0)
    assert rl.autograd.gradgradcheck(
        lambda x, w, b: F.linear_cross_entropy(x, w, target, linear_bias=b), (x, w, b)
    )
