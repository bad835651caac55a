"""Masks, distinct values, searches, counts and draws on a GPU, against the CPU."""

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


class Waits:
    """How often the host waits for the GPU in here."""

    def __enter__(self):
        import warnings

        self.caught = warnings.catch_warnings(record=True)
        self.list = self.caught.__enter__()
        warnings.simplefilter("always")
        rl.cuda.set_sync_debug_mode("warn")
        return self

    def __exit__(self, *error):
        rl.cuda.set_sync_debug_mode("default")
        self.caught.__exit__(*error)
        self.count = len([w for w in self.list if "waits for the GPU" in str(w.message)])


def assert_same(got, want):
    assert got.is_cuda and got.dtype == want.dtype and got.shape == want.shape
    got = got.cpu()
    if want.is_floating_point():
        same = (got == want) | (got.isnan() & want.isnan())
        assert bool(same.all())
    else:
        assert rl.equal(got, want)


SHAPES = [(), (1,), (0,), (5000,), (300, 40), (3, 0, 4), (7, 11, 13, 17), (2_000_003,)]


# ---- masks ----


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_nonzero(shape):
    rl.manual_seed(0)
    for dtype in (rl.bool, rl.float32, rl.int64, rl.float16, rl.complex64):
        x = (rl.rand(shape) < 0.3).to(dtype)
        if dtype == rl.float32 and x.numel() > 1:
            x.view(-1)[0], x.view(-1)[1] = -0.0, float("nan")
        y = x.cuda()
        with Waits() as waits:
            got = y.nonzero()
        assert waits.count == 1
        assert_same(got, x.nonzero())
        for a, b in zip(y.nonzero(as_tuple=True), x.nonzero(as_tuple=True), strict=True):
            assert_same(a, b)
    x = rl.rand(60, 70) < 0.5
    assert_same(x.cuda().t()[::3].nonzero(), x.t()[::3].nonzero())


@pytest.mark.parametrize("shape", [s for s in SHAPES if s], ids=str)
def test_boolean_indexing(shape):
    rl.manual_seed(1)
    x, mask = rl.randn(shape), rl.rand(shape) < 0.4
    for a, m in ((x, mask), (x.transpose(0, -1), mask.transpose(0, -1))):
        b, n = a.cuda(), m.cuda()
        with Waits() as waits:
            got = b[n]
        assert waits.count == 1
        assert_same(got, a[m])
        assert_same(rl.masked_select(b, n), rl.masked_select(a, m))
        with no_waits():
            c = b.clone()
            c[n] = 7.0
            d = rl.where(n, 7.0, b)
        assert rl.equal(c, d)
        values = rl.randn(int(m.sum()))
        want, got = a.clone(), b.clone()
        want[m] = values
        with Waits() as waits:
            got[n] = values.cuda()
        assert_same(got, want)


def test_masks_over_some_dims():
    x, rows = rl.randn(50, 20, 3), rl.rand(50) < 0.5
    plane = rl.rand(50, 20) < 0.5
    y = x.cuda()
    assert_same(y[rows.cuda()], x[rows])
    assert_same(y[plane.cuda()], x[plane])
    assert_same(y[rows.cuda(), 2:5], x[rows, 2:5])
    assert_same(y[:, plane[0].cuda()], x[:, plane[0]])
    got, want = y.clone(), x.clone()
    got[plane.cuda()] += 1
    want[plane] += 1
    assert_same(got, want)
    assert_same(y[plane], x[plane])  # a mask on the host


def test_gradients_of_masked_reads_do_not_wait():
    x, mask = rl.randn(100, 7), rl.rand(100, 7) < 0.5
    w = rl.randn(int(mask.sum()))
    want = x.clone().requires_grad_()
    (want[mask] * w).sum().backward()
    got = x.cuda().requires_grad_()
    loss = (got[mask.cuda()] * w.cuda()).sum()
    with no_waits():
        loss.backward()
    assert_same(got.grad, want.grad)


def test_masked_scatter():
    for shape in ((5000,), (30, 200), (1,)):
        x, mask, source = rl.randn(shape), rl.rand(shape) < 0.5, rl.randn(shape)
        with no_waits():
            got = x.cuda().masked_scatter(mask.cuda(), source.cuda())
        assert_same(got, x.masked_scatter(mask, source))
    x = rl.zeros(10, device="cuda")
    x.masked_scatter_(x == 0, rl.ones(4, device="cuda"))
    with pytest.raises(IndexError, match="masked_scatter"):
        x.sum().item()


# ---- distinct ----


@pytest.mark.parametrize("dtype", [rl.float32, rl.int64, rl.bool, rl.uint8, rl.float16])
def test_distinct_values(dtype):
    rl.manual_seed(2)
    for shape in ((0,), (1,), (1000,), (40, 50), (200_000,)):
        x = rl.randint(0, 50, shape).to(dtype)
        if dtype.is_floating_point and x.numel() > 3:
            x.view(-1)[:3] = float("nan")
        y = x.cuda()
        with Waits() as waits:
            got = rl.unique(y, return_inverse=True, return_counts=True)
        assert waits.count == 1
        for a, b in zip(got, rl.unique(x, return_inverse=True, return_counts=True), strict=True):
            assert_same(a, b)
        assert_same(rl.unique(y), rl.unique(x))
        runs = rl.unique_consecutive(y, return_inverse=True, return_counts=True)
        want = rl.unique_consecutive(x, return_inverse=True, return_counts=True)
        for a, b in zip(runs, want, strict=True):
            assert_same(a, b)


def test_distinct_slices():
    rl.manual_seed(3)
    x = rl.randint(0, 3, (500, 3, 2)).float()
    for dim in (0, 1, 2):
        for f in (rl.unique, rl.unique_consecutive):
            got = f(x.cuda(), return_inverse=True, return_counts=True, dim=dim)
            want = f(x, return_inverse=True, return_counts=True, dim=dim)
            for a, b in zip(got, want, strict=True):
                assert_same(a, b)


# ---- searching and counting ----


def test_searching():
    rl.manual_seed(4)
    edges, x = rl.randn(1000).sort().values, rl.randn(50, 60)
    x[0, 0] = float("nan")
    for right in (False, True):
        with no_waits():
            got = rl.searchsorted(edges.cuda(), x.cuda(), right=right)
            some = rl.bucketize(x.cuda(), edges.cuda(), right=right, out_int32=True)
        assert_same(got, rl.searchsorted(edges, x, right=right))
        assert_same(some, rl.bucketize(x, edges, right=right, out_int32=True))
    rows, order = rl.randn(50, 30).sort(1)
    assert_same(rl.searchsorted(rows.cuda(), x.cuda()), rl.searchsorted(rows, x))
    mixed = rl.randn(50, 30)
    order = mixed.argsort(1)
    assert_same(
        rl.searchsorted(mixed.cuda(), x.cuda(), sorter=order.cuda()),
        rl.searchsorted(mixed, x, sorter=order),
    )
    some = rl.randint(0, 100, (70, 80))
    for invert in (False, True):
        tests = rl.randint(0, 100, (30,))
        with no_waits():
            got = rl.isin(some.cuda(), tests.cuda(), invert=invert)
        assert_same(got, rl.isin(some, tests, invert=invert))
    assert_same(rl.isin(some.cuda(), rl.zeros(0, device="cuda")), rl.isin(some, rl.zeros(0)))


def test_counting():
    rl.manual_seed(5)
    for n, top in ((0, 1), (1, 5), (100_000, 10), (100_000, 50_000)):
        x = rl.randint(0, top, (n,))
        with Waits() as waits:
            got = x.cuda().bincount(minlength=7)
        assert waits.count == (n > 0)
        assert_same(got, x.bincount(minlength=7))
        w = rl.randint(0, 9, (n,)).double()
        assert_same(rl.bincount(x.cuda(), w.cuda()), rl.bincount(x, w))
    with pytest.raises(RuntimeError, match="negative"):
        rl.tensor([3, -1], device="cuda").bincount()
    x = rl.randn(300_001)
    for bins in (1, 10, 5000):
        with no_waits():
            got = rl.histc(x.cuda(), bins, -2, 2)
        assert_same(got, rl.histc(x, bins, -2, 2))
        assert_same(rl.histc(x.cuda(), bins), rl.histc(x, bins))
        for density in (False, True):
            got, want = rl.histogram(x.cuda(), bins), rl.histogram(x, bins)
            assert_same(got.hist, want.hist)
            assert_same(got.bin_edges, want.bin_edges)
            rl.histogram(x.cuda(), bins, density=density)
    edges = rl.tensor([-1.0, 0.0, 0.5, 3.0])
    assert_same(rl.histogram(x.cuda(), edges.cuda()).hist, rl.histogram(x, edges).hist)


def test_repeats_and_places():
    counts = rl.randint(0, 5, (1000,))
    x = rl.randn(1000, 3)
    assert_same(x.cuda().repeat_interleave(counts.cuda(), 0), x.repeat_interleave(counts, 0))
    with no_waits():
        got = rl.repeat_interleave(counts.cuda(), output_size=int(counts.sum()))
    assert_same(got, rl.repeat_interleave(counts))
    with pytest.raises(RuntimeError, match="negative"):
        rl.repeat_interleave(rl.tensor([1, -2], device="cuda"))
    places = rl.randint(0, 60, (40,))
    got = rl.unravel_index(places.cuda(), (3, 4, 5))
    with no_waits():
        along = x.cuda().take_along_dim(x.cuda().argsort(0), 0)
    for a, b in zip(got, rl.unravel_index(places, (3, 4, 5)), strict=True):
        assert_same(a, b)
    assert_same(along, x.take_along_dim(x.argsort(0), 0))


def test_sequences():
    with no_waits():
        for dtype in (rl.int64, rl.uint8, rl.float32, rl.float64, rl.bfloat16):
            got = rl.arange(3, 1000, 7, dtype=dtype, device="cuda")
            line = rl.linspace(-1, 2, 1001, dtype=dtype, device="cuda")
            steps = rl.range(0.5, 200, 1.25, dtype=dtype, device="cuda")
            rl.cuda.set_sync_debug_mode("default")
            assert_same(steps, rl.range(0.5, 200, 1.25, dtype=dtype))
            assert_same(got, rl.arange(3, 1000, 7, dtype=dtype))
            assert_same(line, rl.linspace(-1, 2, 1001, dtype=dtype))
            rl.cuda.set_sync_debug_mode("error")
    for base in (10, 0):
        got, want = (rl.logspace(-2, 3, 51, base, device=d) for d in ("cuda", "cpu"))
        assert rl.allclose(got.cpu(), want)


# ---- draws ----

DRAWS = {
    "uniform": lambda d, t: rl.empty(10_001, dtype=t, device=d).uniform_(-2, 3),
    "normal": lambda d, t: rl.empty(10_001, dtype=t, device=d).normal_(1, 2),
    "log_normal": lambda d, t: rl.empty(10_001, dtype=t, device=d).log_normal_(0, 0.5),
    "exponential": lambda d, t: rl.empty(10_001, dtype=t, device=d).exponential_(0.7),
    "cauchy": lambda d, t: rl.empty(10_001, dtype=t, device=d).cauchy_(1, 2),
    "geometric": lambda d, t: rl.empty(10_001, dtype=t, device=d).geometric_(0.01),
    "bernoulli": lambda d, t: rl.bernoulli(rl.linspace(0, 1, 5000, dtype=t, device=d)),
    "poisson": lambda d, t: rl.poisson(rl.linspace(0, 90, 5000, dtype=t, device=d)),
    "binomial": lambda d, t: rl.binomial(
        rl.linspace(0, 90, 5000, dtype=t, device=d).floor(),
        rl.full((5000,), 0.3, dtype=t, device=d),
    ),
    "gamma": lambda d, t: rl._standard_gamma(rl.linspace(0.01, 9, 5000, dtype=t, device=d)),
    "multinomial": lambda d, t: rl.multinomial(rl.arange(50, dtype=t, device=d), 3000, True),
    "without replacement": lambda d, t: rl.multinomial(rl.arange(50, dtype=t, device=d), 20),
    "randperm": lambda d, t: rl.randperm(5000, device=d),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_have_the_bits_of_the_cpu(name):
    for dtype in (rl.float32, rl.float64):
        rl.manual_seed(6)
        want = DRAWS[name]("cpu", dtype)
        rl.manual_seed(6)
        with no_waits():
            got = DRAWS[name]("cuda", dtype)
        assert_same(got, want)


def test_refused_values_are_told_later():
    rl.bernoulli(rl.tensor([0.5, 1.5], device="cuda"))
    with pytest.raises(
        RuntimeError, match="bernoulli_: expects all probabilities.*element number 1"
    ):
        rl.cuda.synchronize()
    rl.poisson(rl.tensor([-1.0], device="cuda"))
    with pytest.raises(RuntimeError, match="poisson"):
        rl.cuda.synchronize()
    rl.multinomial(rl.tensor([0.0, 0.0], device="cuda"), 1)
    with pytest.raises(RuntimeError, match="multinomial"):
        rl.cuda.synchronize()
    x, zero = rl.arange(4, device="cuda"), rl.tensor([1, 2, 0, 3], device="cuda")
    for f in (rl.floor_divide, rl.remainder, rl.fmod):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            f(x, 0)
        f(x, zero)
        with pytest.raises(RuntimeError, match="ZeroDivisionError.*element number 2"):
            rl.cuda.synchronize()
        f(x.float(), zero.float())
    assert rl.ones(3, device="cuda").sum().item() == 3


def test_gradients_of_overlapping_views():
    x = rl.randn(21)
    grads = []
    for device in ("cpu", "cuda"):
        y = x.to(device, copy=True).requires_grad_()
        (
            y.as_strided((6, 5), (3, 1), 1) * rl.arange(30.0, device=device).view(6, 5)
        ).sum().backward()
        grads.append(y.grad.cpu())
    assert rl.equal(*grads)
