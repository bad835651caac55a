"""linear_cross_entropy against cross_entropy of linear, its memory, its derivatives, its errors."""

import itertools

import pytest
from peak import peak_of

import rushlight as rl
from rushlight import nn
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.nn import functional as F

REDUCTIONS = ("none", "mean", "sum")
Options = nn.LinearCrossEntropyOptions


def sample(rows=37, features=6, classes=11, dtype=rl.float64, ignore=-100):
    rl.manual_seed(rows + classes)
    x = rl.randn(rows, features, dtype=dtype, requires_grad=True)
    w = rl.randn(classes, features, dtype=dtype, requires_grad=True)
    b = rl.randn(classes, dtype=dtype, requires_grad=True)
    target = rl.randint(0, classes, (rows,))
    target[rows // 2] = ignore
    weight = rl.rand(classes, dtype=dtype) + 0.5
    return x, w, b, target, weight


def composed(x, w, b, target, weight, **kwargs):
    return F.cross_entropy(F.linear(x, w, b), target, weight, **kwargs)


def fused(x, w, b, target, weight, **kwargs):
    return F.linear_cross_entropy(x, w, target, linear_bias=b, weight=weight, **kwargs)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("chunk", [1, 5, 37, 100, None])
def test_values_and_gradients(reduction, smoothing, weighted, biased, chunk):
    x, w, b, target, weight = sample(ignore=3)
    b, weight = b if biased else None, weight if weighted else None
    options = Options(batch_chunk_size=chunk) if chunk else None
    kwargs = {"reduction": reduction, "label_smoothing": smoothing, "ignore_index": 3}
    got = fused(x, w, b, target, weight, options=options, **kwargs)
    want = composed(x, w, b, target, weight, **kwargs)
    assert rl.allclose(got, want, 1e-12, 1e-12)
    seed = rl.randn(got.shape, dtype=rl.float64)
    wrt = (x, w) + ((b,) if biased else ())
    for again in (True, False):
        pairs = zip(
            rl.autograd.grad(got, wrt, seed, retain_graph=again),
            rl.autograd.grad(want, wrt, seed, retain_graph=again),
            strict=True,
        )
        for a, e in pairs:
            assert rl.allclose(a, e, 1e-10, 1e-12)
    with rl.no_grad():
        assert rl.allclose(fused(x, w, b, target, weight, options=options, **kwargs), want)


@pytest.mark.parametrize("wanted", list(itertools.product([False, True], repeat=3)), ids=str)
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_only_what_is_wanted(wanted, reduction):
    x, w, b, target, _ = sample()
    for t, want in zip((x, w, b), wanted, strict=True):
        t.requires_grad_(want)
    loss = fused(x, w, b, target, None, reduction=reduction, options=Options(batch_chunk_size=8))
    assert loss.requires_grad == any(wanted)
    if any(wanted):
        loss.sum().backward()
        composed(*(y := [t.detach().requires_grad_() for t in (x, w, b)]), target, None).backward()
        scale = 36.0 if reduction == "none" else 1.0
        for t, other, want in zip((x, w, b), y, wanted, strict=True):
            assert (t.grad is not None) == want
            if want:
                assert rl.allclose(t.grad, other.grad * scale)
    # Of all that could be had, only some is asked for.
    for t in (x, w, b):
        t.requires_grad_()
    loss = fused(x, w, b, target, None, reduction=reduction, options=Options(batch_chunk_size=8))
    only = rl.autograd.grad(loss.sum(), w)[0]
    whole = rl.autograd.grad(composed(x, w, b, target, None, reduction=reduction).sum(), w)[0]
    assert rl.allclose(only, whole)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_derivatives(reduction):
    x, w, b, target, weight = sample(5, 3, 4)
    weight = weight.requires_grad_()

    def f(x, w, b, weight):
        return fused(
            x, w, b, target, weight, reduction=reduction, label_smoothing=0.1,
            options=Options(batch_chunk_size=2),
        )  # fmt: skip

    assert gradcheck(f, (x, w, b, weight.detach()), check_batched_grad=True, check_forward_ad=True)
    assert gradcheck(f, (x, w, b, weight))
    assert gradgradcheck(f, (x, w, b, weight))


def test_transforms_of_functions():
    x, w, b, target, _ = sample(6, 3, 4, ignore=0)
    x, w, b = x.detach(), w.detach(), b.detach()

    def loss(w, x, t):
        return F.linear_cross_entropy(x, w, t, linear_bias=b)

    def same(w, x, t):
        return F.cross_entropy(F.linear(x, w, b), t)

    assert rl.allclose(rl.func.grad(loss)(w, x, target), rl.func.grad(same)(w, x, target))
    stacked, targets = x.reshape(3, 2, 3), target.reshape(3, 2)
    each = rl.vmap(rl.func.grad(loss), in_dims=(None, 0, 0))(w, stacked, targets)
    want = rl.vmap(rl.func.grad(same), in_dims=(None, 0, 0))(w, stacked, targets)
    assert rl.allclose(each, want)
    values = rl.vmap(loss, in_dims=(None, 0, 0))(w, stacked, targets)
    assert rl.allclose(values, rl.vmap(same, in_dims=(None, 0, 0))(w, stacked, targets))
    hessian = rl.func.hessian(loss)(w, x, target)
    assert rl.allclose(hessian, rl.func.hessian(same)(w, x, target))


@pytest.mark.parametrize("dtype", [rl.float32, rl.bfloat16, rl.float16], ids=str)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("chunk", [64, 1000])
def test_other_types(dtype, reduction, chunk):
    x, w, b, target, _ = sample(300, 16, 500, dtype)
    loss = fused(
        x, w, b, target, None, reduction=reduction, options=Options(batch_chunk_size=chunk)
    )
    assert loss.dtype == dtype
    exact = [t.detach().double().requires_grad_() for t in (x, w, b)]
    want = composed(*exact, target, None, reduction=reduction)
    close = {"rtol": 1e-5, "atol": 1e-5} if dtype == rl.float32 else {"rtol": 2e-2, "atol": 2e-2}
    assert rl.allclose(loss.double(), want, **close)
    seed = rl.full(loss.shape, 3.0, dtype=dtype)
    got = rl.autograd.grad(loss, (x, w, b), seed)
    for a, e in zip(got, rl.autograd.grad(want, exact, seed.double()), strict=True):
        assert a.dtype == dtype
        error = (a.double() - e).norm() / e.norm()
        assert error < (1e-5 if dtype == rl.float32 else 2e-2)


def test_float16_gradients_of_a_mean_do_not_vanish():
    x, w, b, target, _ = sample(2048, 8, 4096, rl.float16)
    scale = 2.0**14  # as a GradScaler has it
    loss = fused(x, w, b, target, None, options=Options(batch_chunk_size=512))
    got = rl.autograd.grad(loss, (x, w), rl.tensor(scale, dtype=rl.float16))
    exact = [t.detach().double().requires_grad_() for t in (x, w, b)]
    want = rl.autograd.grad(composed(*exact, target, None) * scale, exact[:2])
    for a, e in zip(got, want, strict=True):
        assert (a.double() - e).norm() / e.norm() < 1e-2


def test_chunks_add_up_without_rounding():
    """Many chunks of bfloat16 give the weight's gradient as few do."""
    x, w, b, target, _ = sample(512, 8, 64, rl.bfloat16)

    def gradient(chunk):
        loss = fused(
            x, w, b, target, None, options=Options(batch_chunk_size=chunk), reduction="sum"
        )
        return rl.autograd.grad(loss, w)[0].double()

    few, many = gradient(512), gradient(2)
    assert (few - many).norm() / few.norm() < 3e-3


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", [rl.float32, rl.bfloat16], ids=str)
def test_memory(reduction, dtype):
    rows, classes = 4096, 8192
    x = rl.randn(rows, 8, dtype=dtype, requires_grad=True)
    w = rl.randn(classes, 8, dtype=dtype, requires_grad=True)
    target = rl.randint(0, classes, (rows,))

    def train():
        x.grad = w.grad = None
        loss = F.linear_cross_entropy(
            x, w, target, reduction=reduction, options=Options(batch_chunk_size=256)
        )
        loss.sum().backward()

    whole = rows * classes * x.element_size()
    # A chunk is a sixteenth; without products of half types, its scores are float32 beside it.
    assert peak_of(train) < (whole / 8 if dtype == rl.float32 else whole / 4)


def test_memory_without_options():
    x, w = rl.randn(8192, 4, requires_grad=True), rl.randn(16384, 4, requires_grad=True)
    target = rl.randint(0, 16384, (8192,))

    def train():
        x.grad = w.grad = None
        F.linear_cross_entropy(x, w, target).backward()

    assert peak_of(train) < 8192 * 16384 * 4 / 6


def test_autocast():
    x, w, b, target, weight = sample(50, 8, 20, rl.float32)
    with rl.autocast("cpu", dtype=rl.bfloat16):
        got = fused(x, w, b, target, weight, options=Options(batch_chunk_size=16))
        want = composed(x, w, b, target, weight)
        half = x.detach().to(rl.bfloat16)
        mixed = F.linear_cross_entropy(half, w, target, linear_bias=b)
        double = F.linear_cross_entropy(x.double(), w.double(), target)
    assert got.dtype == want.dtype == mixed.dtype == rl.float32
    assert double.dtype == rl.float64
    assert rl.allclose(got, want, 1e-3, 1e-3)
    pairs = zip(rl.autograd.grad(got, (x, w, b)), rl.autograd.grad(want, (x, w, b)), strict=True)
    for a, e in pairs:
        assert a.dtype == rl.float32
        assert (a - e).norm() / e.norm() < 1e-2


def test_compiled_and_traced():
    x, w, b, target, _ = sample(50, 8, 20, rl.float32)

    def step(x, w, b):
        return F.linear_cross_entropy(x * 2, w, target, linear_bias=b)

    want = step(x, w, b)
    got = rl.compile(step)(x, w, b)
    assert rl.equal(got, want)
    expected = rl.autograd.grad(want, (x, w, b))
    for a, e in zip(rl.autograd.grad(got, (x, w, b)), expected, strict=True):
        assert rl.allclose(a, e)
    program = rl.jit.trace(step, (x.detach(), w.detach(), b.detach()))
    traced = program(x, w, b)  # what it was traced with wanted no gradients
    for a, e in zip(
        *(rl.autograd.grad(o, (x, w, b)) for o in (traced, step(x, w, b))), strict=True
    ):
        assert rl.equal(a, e)


def test_samples_and_dims():
    x, w, b, target, _ = sample(4, 3, 5, ignore=1)
    one = F.linear_cross_entropy(x[0], w, target[0], linear_bias=b, reduction="none")
    assert one.shape == ()
    assert rl.allclose(one, F.cross_entropy(F.linear(x[0], w, b), target[0], reduction="none"))
    assert F.linear_cross_entropy(x[0], w, target[:1]).shape == ()
    # Class probabilities, and weights of more dims.
    soft = rl.rand(4, 5, dtype=rl.float64).softmax(1)
    assert rl.allclose(
        F.linear_cross_entropy(x, w, soft, label_smoothing=0.1),
        F.cross_entropy(F.linear(x, w), soft, label_smoothing=0.1),
    )
    deep, deep_b = rl.randn(5, 2, 3, 3, dtype=rl.float64), rl.randn(5, 2, 3, dtype=rl.float64)
    labels = rl.randint(0, 5, (4, 2, 3))
    scores = rl.einsum("nf,cdef->ncde", x, deep) + deep_b
    for reduction in REDUCTIONS:
        assert rl.allclose(
            F.linear_cross_entropy(x, deep, labels, linear_bias=deep_b, reduction=reduction),
            F.cross_entropy(scores, labels, reduction=reduction),
        )
    with pytest.warns(UserWarning, match="options have no effect"):
        F.linear_cross_entropy(x, deep, labels, options=Options())
    assert rl.equal(
        F.linear_cross_entropy(x, w, target.to(rl.uint8)), F.linear_cross_entropy(x, w, target)
    )
    strided = rl.randn(3, 4, dtype=rl.float64).t()
    wide = rl.randn(3, 5, dtype=rl.float64).t()
    assert rl.allclose(
        F.linear_cross_entropy(strided, wide, target, options=Options(batch_chunk_size=2)),
        F.cross_entropy(F.linear(strided, wide), target),
    )


def test_nothing_counts():
    x, w, b, _, _ = sample(3, 4, 5)
    ignored = rl.full((3,), -100)
    for options in (None, Options(batch_chunk_size=2)):
        loss = F.linear_cross_entropy(x, w, ignored, linear_bias=b, options=options)
        assert loss.isnan()
        assert all((g == 0).all() for g in rl.autograd.grad(loss, (x, w, b)))
        total = F.linear_cross_entropy(x, w, ignored, reduction="sum", options=options)
        assert float(total.detach()) == 0
    empty = F.linear_cross_entropy(x[:0], w, ignored[:0])
    assert empty.isnan()
    assert (rl.autograd.grad(empty, w)[0] == 0).all()
    assert F.linear_cross_entropy(x[:0], w, ignored[:0], reduction="none").shape == (0,)


def test_two_passes_and_versions():
    x, w, b, target, _ = sample()
    loss = fused(x, w, b, target, None)
    first = rl.autograd.grad(loss, (x, w, b), retain_graph=True)
    second = rl.autograd.grad(loss, (x, w, b))
    assert all(rl.equal(a, e) for a, e in zip(first, second, strict=True))
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        loss.backward()
    loss = fused(x, w, b, target, None)
    with rl.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match="was overwritten by add"):
        loss.backward()
    with pytest.raises(IndexError, match="target 11 is out of range for 11 classes"):
        fused(x, w, b, rl.full((37,), 11), None)


def test_deterministic():
    x, w, b, target, _ = sample(100, 8, 30, rl.float32)
    rl.use_deterministic_algorithms(True)
    try:
        runs = [rl.autograd.grad(fused(x, w, b, target, None), (x, w, b)) for _ in range(2)]
    finally:
        rl.use_deterministic_algorithms(False)
    assert all(rl.equal(a, e) for a, e in zip(*runs, strict=True))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x, w, t: F.linear_cross_entropy(x[None], w, t), RuntimeError, "input must be"),
        (lambda x, w, t: F.linear_cross_entropy(x, w[0], t), RuntimeError, "linear_weight must be"),
        (
            lambda x, w, t: F.linear_cross_entropy(x[:, 1:], w, t),
            RuntimeError,
            "takes in_features=3",
        ),
        (
            lambda x, w, t: F.linear_cross_entropy(x, w, t, linear_bias=x[0]),
            RuntimeError,
            r"linear_bias must have shape \[5\], got \[3\]",
        ),
        (
            lambda x, w, t: F.linear_cross_entropy(x[0], w[:, None], t[0]),
            RuntimeError,
            "takes a batch of inputs",
        ),
        (
            lambda x, w, t: F.linear_cross_entropy(x, w, rl.rand(4, 5), ignore_index=1),
            RuntimeError,
            "ignore_index means nothing",
        ),
        (lambda x, w, t: F.linear_cross_entropy(x, w, t[:2]), ValueError, r"must have shape \[4\]"),
        (lambda x, w, t: F.linear_cross_entropy(x[0], w, t), ValueError, "one element"),
        (
            lambda x, w, t: F.linear_cross_entropy(x, w, t, weight=rl.ones(4)),
            RuntimeError,
            "each of the 5 classes",
        ),
        (
            lambda x, w, t: F.linear_cross_entropy(x, w, t, label_smoothing=1.5),
            RuntimeError,
            "between 0 and 1",
        ),
        (
            lambda x, w, t: F.linear_cross_entropy(x, w, t, reduction="most"),
            ValueError,
            "reduction must be",
        ),
        (
            lambda x, w, t: F.linear_cross_entropy(x, w.double(), t),
            RuntimeError,
            "must have the same dtype, got float32, float64",
        ),
        (lambda x, w, t: F.linear_cross_entropy(x, w, t.float()), RuntimeError, "class indices"),
        (
            lambda x, w, t: F.linear_cross_entropy(x, w, t, options=Options(acc_dtype=rl.bfloat16)),
            RuntimeError,
            "acc_dtype must be",
        ),
        (
            lambda x, w, t: F.linear_cross_entropy(
                x, w, t, options=Options(batch_chunk_size=3, chunking_method="aspect_ratio")
            ),
            ValueError,
            "do not agree",
        ),
    ],
)
def test_errors(call, error, text):
    x, w, t = rl.randn(4, 3), rl.randn(5, 3), rl.tensor([0, 1, 2, 4])
    with pytest.raises(error, match=text):
        call(x, w, t)


def test_options():
    assert Options() == Options(False, None, "auto", "auto", None)
    for bad in (
        {"acc_policy": "fast"},
        {"chunking_method": "aspect"},
        {"chunking_method": "aspect_ratio:0"},
        {"chunking_method": "aspect_ratio:"},
        {"batch_chunk_size": 0},
        {"batch_chunk_size": 2.0},
        {"acc_dtype": rl.int64},
    ):
        with pytest.raises(ValueError, match="LinearCrossEntropyOptions: "):
            Options(**bad)
    sizes = (16384, 768, 50304, rl.bfloat16)
    # (The numbers are those that PyTorch's rule gives.)
    assert Options(chunking_method="aspect_ratio")._chunk_size(*sizes) == 256
    assert Options(chunking_method="aspect_ratio:2")._chunk_size(*sizes) == 128
    assert Options(chunking_method=None)._chunk_size(*sizes) == 16384
    assert Options(batch_chunk_size=100)._chunk_size(*sizes) == 100
    assert Options(acc_dtype=rl.float32)._chunk_size(*sizes) == 0


def test_module():
    rl.manual_seed(0)
    module = nn.LinearCrossEntropyLoss(3, 5, bias=True, label_smoothing=0.1, weight=rl.rand(5))
    x, target = rl.randn(4, 3), rl.tensor([0, 1, 2, 4])
    linear = module.linear
    want = F.cross_entropy(linear(x), target, module.weight, label_smoothing=0.1)
    assert rl.allclose(module(x, target), want)
    assert [n for n, _ in module.named_parameters()] == ["linear.weight", "linear.bias"]
    assert set(module.state_dict()) == {"weight", "linear.weight", "linear.bias"}
    deep = nn.LinearCrossEntropyLoss(3, 5, out_features=(2, 4), dtype=rl.float64, reduction="none")
    assert deep.linear.weight.shape == (40, 3)
    assert deep.linear.bias is None
    assert deep(x.double(), rl.zeros(4, 2, 4, dtype=rl.int64)).shape == (4, 2, 4)
    assert "num_classes=5, out_features=(2, 4), bias=False, reduction=none" in repr(deep)
    for bad in ({"weight": rl.ones(4)}, {"label_smoothing": 2.0}):
        with pytest.raises(RuntimeError, match="LinearCrossEntropyLoss: "):
            nn.LinearCrossEntropyLoss(3, 5, **bad)


def test_training_step_matches_the_two_layers():
    rl.manual_seed(0)
    module = nn.LinearCrossEntropyLoss(8, 50, options=Options(batch_chunk_size=16))
    body = nn.Linear(8, 8)
    x, target = rl.randn(64, 8), rl.randint(0, 50, (64,))
    optimizer = rl.optim.SGD([*module.parameters(), *body.parameters()], lr=0.5)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = module(body(x).relu(), target)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    rl.manual_seed(0)
    head, other = nn.Linear(8, 50, bias=False), nn.Linear(8, 8)
    optimizer = rl.optim.SGD([*head.parameters(), *other.parameters()], lr=0.5)
    for expected in losses:
        optimizer.zero_grad()
        loss = F.cross_entropy(head(other(x).relu()), target)
        loss.backward()
        optimizer.step()
        assert abs(float(loss.detach()) - expected) < 1e-4
