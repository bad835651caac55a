"""Scans, sorts, masks and searches on a GPU: against the CPU, at sizes that take many blocks."""

import contextlib

import pytest

import rushlight as rl


@contextlib.contextmanager
def no_waits():
    """The host must not wait for the GPU in here."""
    rl.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        rl.cuda.set_sync_debug_mode("default")


def assert_same(got, want, rtol=0.0, atol=0.0):
    assert got.is_cuda and got.dtype == want.dtype and got.shape == want.shape
    got = got.cpu()
    if rtol == 0 and atol == 0 and not want.is_floating_point():
        assert rl.equal(got, want)
    else:
        assert rl.allclose(got.double(), want.double(), rtol, atol, equal_nan=True)


def numbers(*shape, dtype=rl.float32, low=-9, high=10):
    return rl.randint(low, high, shape).to(dtype)


# ---- scans ----

SHAPES = [((7,), 0), ((5000,), 0), ((1_000_003,), 0), ((3, 70_001), 1), ((1000, 33), 1)]
SHAPES += [((33, 1000), 0), ((20_000, 40), 0), ((4, 300, 5), 1), ((70_000, 3), 0), ((2, 5000), 1)]
SHAPES += [((40_000_000,), 0)]


@pytest.mark.parametrize("shape, dim", SHAPES)
def test_sums_of_integers_are_exact(shape, dim):
    x = numbers(*shape, dtype=rl.int32)
    with no_waits():
        got = x.cuda().cumsum(dim)
    assert_same(got, x.cumsum(dim))


@pytest.mark.parametrize("shape, dim", SHAPES[:-1])
def test_running_results(shape, dim):
    rl.manual_seed(0)
    x = rl.randn(*shape)
    y = x.cuda()
    assert_same(y.cumsum(dim), x.cumsum(dim), 1e-6, 1e-5)
    # Accumulated in double: float32 numbers round the same way, nearly always.
    assert (y.cumsum(dim).cpu() != x.cumsum(dim)).double().mean() < 1e-4
    assert_same(y.logcumsumexp(dim), x.logcumsumexp(dim), 1e-6, 1e-6)
    factors = 1 + x / 1000
    assert_same(factors.cuda().cumprod(dim), factors.cumprod(dim), 1e-4)
    x = numbers(*shape)
    x[rl.rand(shape) < 1e-5] = float("nan")
    for f in (rl.cummax, rl.cummin):
        got, want = f(x.cuda(), dim), f(x, dim)
        assert_same(got.values, want.values)
        assert_same(got.indices, want.indices)


@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16, rl.float64, rl.uint8, rl.bool])
def test_scans_of_other_types(dtype):
    for shape, dim in [((100_001,), 0), ((50, 1000), 1), ((1000, 50), 0), ((9, 7), 1)]:
        x = rl.randint(0, 2, shape).to(dtype)
        assert_same(x.cuda().cumsum(dim), x.cumsum(dim))
        assert_same(x[..., ::2].cuda().cumsum(dim), x[..., ::2].cumsum(dim))
        got, want = x.cuda().cummax(dim), x.cummax(dim)
        assert_same(got.values, want.values)
        assert_same(got.indices, want.indices)
    z = rl.randn(70_000, dtype=rl.complex64)
    assert_same(rl.view_as_real(z.cuda().cumsum(0)), rl.view_as_real(z.cumsum(0)), 1e-5, 1e-3)


def test_scans_have_the_same_bits_every_time():
    x = rl.randn(30_000_001, device="cuda")
    first = x.cumsum(0)
    for _ in range(5):
        assert rl.equal(x.cumsum(0), first)


# ---- joining ----


def test_joining_many():
    parts = [rl.rand(3, k % 5 + (k % 7 == 0), 4) for k in range(150)]
    for dim in (0, 1):
        pieces = parts if dim == 1 else [p.transpose(0, 1) for p in parts]
        with no_waits():
            got = rl.cat([p.cuda() for p in pieces], dim)
        assert rl.equal(got.cpu(), rl.cat(pieces, dim))
    odd = [rl.arange(5, dtype=rl.uint8), rl.ones(3), rl.zeros(0), rl.tensor([True])]
    assert_same(rl.cat([p.cuda() for p in odd]), rl.cat(odd))
    images = [rl.rand(2, c, 5, 6).to(memory_format=rl.channels_last) for c in (3, 2, 8)]
    got = rl.cat([i.cuda() for i in images], 1)
    assert got.is_contiguous(memory_format=rl.channels_last)
    assert_same(got, rl.cat(images, 1))
    assert_same(rl.stack([i.cuda() for i in images[:1]] * 3, 2), rl.stack(images[:1] * 3, 2))


# ---- triangles ----


def test_triangles():
    x = rl.randn(2, 3, 300, 400)
    for k in (-1000, -5, 0, 7, 1000):
        for f in (rl.tril, rl.triu):
            with no_waits():
                got = f(x.cuda(), k)
            assert_same(got, f(x, k))
            assert_same(f(x.cuda().transpose(2, 3), k), f(x.transpose(2, 3), k))
        for f in (rl.tril_indices, rl.triu_indices):
            with no_waits():
                got = f(300, 200, k, device="cuda")
            assert_same(got, f(300, 200, k))


# ---- sorting ----

ROWS = [(1,), (7,), (1000,), (8192,), (8193,), (1_000_003,), (20_000, 3), (300, 64), (70, 5000)]
ROWS += [(3, 100_000), (2, 3, 4097)]
ORDERED = [rl.float32, rl.float64, rl.int64, rl.int32, rl.float16, rl.bfloat16, rl.bool]
ORDERED += [rl.uint8, rl.int8, rl.int16]


def awkward(shape, dtype):
    """Many equals, zeros of both signs, infinities and NaNs."""
    x = rl.randint(-40, 41, shape)
    if not dtype.is_floating_point:
        return (x if dtype != rl.uint8 else x + 40).to(dtype)
    x = (x / 8).to(dtype)
    for k, v in enumerate((-0.0, 0.0, float("inf"), -float("inf"), float("nan"))):
        x[rl.rand(shape) < 0.02 + k * 0.005] = v
    return x


@pytest.mark.parametrize("shape", ROWS, ids=str)
def test_sorting_is_stable(shape):
    rl.manual_seed(1)
    for dtype in ORDERED if len(shape) == 1 else ORDERED[:3]:
        x = awkward(shape, dtype)
        y = x.cuda()
        for descending in (False, True):
            want = rl.sort(x, -1, descending, stable=True)
            with no_waits():
                got = rl.sort(y, -1, descending, stable=True)
                order = rl.argsort(y, -1, descending)
            assert_same(got.indices, want.indices)
            assert_same(got.values, want.values)
            assert_same(order, want.indices)


def test_sorting_along_other_dims():
    x = rl.randn(30, 500, 7)
    for view in (x, x.transpose(0, 1), x[:, ::2]):
        for dim in range(3):
            got, want = rl.sort(view.cuda(), dim), rl.sort(view, dim)
            assert_same(got.values, want.values)
            assert_same(got.indices, want.indices)
    for x in (rl.tensor(3.0), rl.zeros(0), rl.zeros(0, 4), rl.zeros(4, 0)):
        got, want = x.cuda().sort(), x.sort()
        assert_same(got.values, want.values)
        assert_same(got.indices, want.indices)


@pytest.mark.parametrize("dtype", [rl.float32, rl.int64, rl.bfloat16])
def test_picking(dtype):
    rl.manual_seed(2)
    for shape in ((1,), (4000,), (300_001,), (600, 100), (5, 257), (40, 8192), (40, 20_000)):
        x = awkward(shape, dtype)
        y, n = x.cuda(), x.shape[-1]
        for k in {1, n // 5 + 1, n // 2 + 1, n}:
            for name, options in [("topk", {}), ("topk", {"largest": False}), ("kthvalue", {})]:
                want = getattr(x, name)(k, **options)
                with no_waits():
                    got = getattr(y, name)(k, **options)
                assert_same(got.indices, want.indices)
                assert_same(got.values, want.values)
        for f in (rl.median, rl.nanmedian, rl.mode):
            want = f(x, -1)
            with no_waits():
                got = f(y, -1)
            assert_same(got.indices, want.indices)
            assert_same(got.values, want.values)
        assert_same(y.median(), x.median())
        assert_same(y.nanmedian(), x.nanmedian())


def test_random_permutations_equal_the_cpus():
    for n in (0, 1, 1000, 100_000):
        rl.manual_seed(3)
        want = rl.randperm(n)
        rl.manual_seed(3)
        with no_waits():
            got = rl.randperm(n, device="cuda")
        assert_same(got, want)


def test_quantiles_do_not_wait():
    x = rl.rand(50, 40, device="cuda")
    q = rl.tensor([0.1, 0.5], device="cuda")
    with no_waits():
        got = [x.quantile(0.3, 1), x.nanquantile(q, 0), x.quantile(q)]
    host = x.cpu()
    want = [host.quantile(0.3, 1), host.nanquantile(q.cpu(), 0), host.quantile(q.cpu())]
    for g, w in zip(got, want, strict=True):
        assert rl.allclose(g.cpu(), w)
    with pytest.raises(RuntimeError, match="q must lie in"):
        x.quantile(1.5)
