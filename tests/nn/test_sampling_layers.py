"""Fractional pools, sampling by a grid, adaptive softmax."""

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.nn import functional as F

RNG = np.random.RandomState(0)


def starts(sample, size, out, kernel):
    """Where the windows of a fractional pool begin (Graham, 2014)."""
    alpha = (size - kernel) / (out - 1) if out > 1 else 0
    inner = [int((i + sample) * alpha) - int(sample * alpha) for i in range(out - 1)]
    return [*inner, size - kernel]


def fractional(x, kernel, out, samples):
    values = np.empty((*x.shape[:2], *out))
    for n, c in np.ndindex(*x.shape[:2]):
        by = samples[n, c][::-1] if len(out) == 2 else samples[n, c]
        rows = [
            starts(s, *z)
            for s, z in zip(by, zip(x.shape[2:], out, kernel, strict=True), strict=True)
        ]
        for at in np.ndindex(*out):
            window = tuple(slice(r[i], r[i] + k) for r, i, k in zip(rows, at, kernel, strict=True))
            values[(n, c, *at)] = x[n, c][window].max()
    return values


@pytest.mark.parametrize(("size", "kernel", "out"), [
    ((7, 9), (2, 3), (4, 5)), ((6, 6), (2, 2), (1, 5)), ((5, 6, 7), (2, 2, 3), (3, 4, 2)),
])  # fmt: skip
def test_fractional_pools(size, kernel, out):
    dims = len(size)
    pool = getattr(F, f"fractional_max_pool{dims}d")
    x, samples = RNG.randn(2, 3, *size), RNG.rand(2, 3, dims)
    want = fractional(x, kernel, out, samples)
    t = rl.tensor(x, requires_grad=True)
    got, at = pool(t, kernel, out, return_indices=True, _random_samples=rl.tensor(samples))
    np.testing.assert_array_equal(got.detach().numpy(), want)
    assert rl.equal(t.detach().flatten(2).gather(2, at.flatten(2)).view_as(got), got.detach())

    def f(x):
        return pool(x, kernel, out, _random_samples=rl.tensor(samples))

    assert gradcheck(f, (t,)) and gradgradcheck(f, (t,))
    single = pool(t[0], kernel, out, _random_samples=rl.tensor(samples[:1]))
    assert rl.equal(single, got[0])


def test_fractional_pool_modules():
    pool = nn.FractionalMaxPool2d(2, output_ratio=0.5)
    assert pool(rl.randn(2, 3, 8, 9)).shape == (2, 3, 4, 4)
    assert nn.FractionalMaxPool3d((1, 2, 2), (3, 4, 5))(rl.randn(2, 6, 7, 8)).shape == (2, 3, 4, 5)
    values, at = nn.FractionalMaxPool2d(3, 4, return_indices=True)(rl.randn(1, 1, 9, 9))
    assert at.dtype == rl.int64 and values.shape == at.shape == (1, 1, 4, 4)
    assert nn.FractionalMaxPool2d(2, 3)(rl.randn(0, 2, 6, 6)).shape == (0, 2, 3, 3)
    for bad in (
        lambda: nn.FractionalMaxPool2d(2),
        lambda: nn.FractionalMaxPool2d(2, 3, 0.5),
        lambda: nn.FractionalMaxPool2d(2, output_ratio=1.5),
        lambda: nn.FractionalMaxPool2d(0, 3),
        lambda: F.fractional_max_pool2d(rl.zeros(1, 1, 4, 4), 2),
        lambda: F.fractional_max_pool2d(rl.zeros(1, 1, 4, 4), 3, 3),
        lambda: F.fractional_max_pool2d(rl.zeros(4, 4), 2, 2),
    ):
        with pytest.raises(ValueError):
            bad()


# ---- grid_sample


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_the_identity_grid_gives_the_image(mode, align):
    x = rl.tensor(RNG.randn(2, 3, 5, 7))
    theta = rl.eye(2, 3, dtype=rl.float64).expand(2, 2, 3)
    grid = F.affine_grid(theta, x.shape, align_corners=align)
    assert rl.allclose(F.grid_sample(x, grid, mode, align_corners=align), x, atol=1e-12)


@pytest.mark.parametrize("align", [False, True])
def test_a_grid_of_linspaces_is_interpolation(align):
    x = rl.tensor(RNG.randn(1, 2, 5, 4))
    theta = rl.eye(2, 3, dtype=rl.float64)[None]
    for mode in ("bilinear", "bicubic"):
        grid = F.affine_grid(theta, (1, 2, 9, 11), align_corners=align)
        got = F.grid_sample(x, grid, mode, "border", align)
        want = F.interpolate(x, (9, 11), mode=mode, align_corners=align)
        assert rl.allclose(got, want, atol=1e-12)


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_derivatives(mode, padding, align, dims):
    if dims == 3 and mode == "bicubic":
        with pytest.raises(RuntimeError, match="cubic"):
            F.grid_sample(rl.zeros(1, 1, 2, 2, 2), rl.zeros(1, 1, 1, 1, 3), mode)
        return
    sizes = (3, 4, 3)[:dims]
    x = rl.tensor(RNG.randn(2, 2, *sizes), requires_grad=True)
    grid = rl.tensor(RNG.uniform(-1.6, 1.6, (2, *(2, 3, 1)[:dims], dims)), requires_grad=True)

    def f(x, grid):
        return F.grid_sample(x, grid, mode, padding, align)

    assert gradcheck(f, (x, grid), eps=1e-7, atol=1e-4)
    assert gradgradcheck(f, (x, grid), eps=1e-7, atol=1e-4)


def test_many_points_and_channels():
    """More than a block of points, odd numbers of channels, against one point at a time."""
    x, grid = rl.randn(2, 3, 9, 8), rl.rand(2, 13, 31, 2) * 2.6 - 1.3
    whole = F.grid_sample(x, grid, align_corners=False)
    for i, j in [(0, 0), (4, 17), (12, 30)]:
        one = F.grid_sample(x, grid[:, i : i + 1, j : j + 1], align_corners=False)
        # (Not to the last bit: a loop's vector part and its rest may contract differently.)
        assert rl.allclose(one[..., 0, 0], whole[..., i, j], 1e-5, 1e-6)
    a, b = x.clone().requires_grad_(), grid.clone().requires_grad_()
    F.grid_sample(a, b, align_corners=False).square().sum().backward()
    c, d = (t.double().requires_grad_() for t in (x, grid))
    out = F.grid_sample(c, d, align_corners=False).square().sum()
    gc, gd = rl.autograd.grad(out, (c, d), create_graph=True)  # the formula over ops
    assert rl.allclose(a.grad.double(), gc, 1e-4, 1e-4)
    assert rl.allclose(b.grad.double(), gd, 1e-3, 1e-3)


def test_nothing_finite_is_made_of_what_lies_outside():
    x = rl.full((1, 1, 3, 3), float("inf"))
    far = rl.full((1, 1, 1, 2), 5.0)
    assert F.grid_sample(x, far, align_corners=False) == 0
    nan = rl.full((1, 1, 1, 2), float("nan"))
    assert F.grid_sample(rl.ones(1, 1, 3, 3), nan, align_corners=False) == 0
    assert F.grid_sample(rl.ones(1, 1, 3, 3), far * 1e30, align_corners=False) == 0
    assert F.grid_sample(x[:0], far[:0]).shape == (0, 1, 1, 1)
    assert F.grid_sample(x, far[:, :0]).shape == (1, 1, 0, 1)


def test_halves_are_sampled_in_float32():
    x, grid = rl.randn(1, 2, 4, 4).half(), (rl.rand(1, 3, 3, 2) * 2 - 1).half()
    got = F.grid_sample(x, grid, align_corners=True)
    want = F.grid_sample(x.float(), grid.float(), align_corners=True)
    assert got.dtype == rl.float16 and rl.allclose(got.float(), want, 1e-2, 1e-2)


# ---- adaptive softmax


def test_adaptive_softmax_is_a_distribution():
    rl.manual_seed(0)
    m = nn.AdaptiveLogSoftmaxWithLoss(16, 20, [5, 10, 15], div_value=2.0).double()
    assert [tuple(p.shape) for p in m.parameters()] == [
        (8, 16), (8, 16), (5, 8), (4, 16), (5, 4), (2, 16), (5, 2)
    ]  # fmt: skip
    x = rl.randn(7, 16, dtype=rl.float64)
    logs = m.log_prob(x)
    assert rl.allclose(logs.exp().sum(1), rl.ones(7, dtype=rl.float64))
    target = rl.tensor([0, 4, 5, 9, 10, 15, 19])
    out, loss = m(x, target)
    assert rl.allclose(out, logs.gather(1, target[:, None])[:, 0]) and rl.allclose(
        loss, -out.mean()
    )
    assert rl.equal(m.predict(x), logs.argmax(1))
    one = m(x[2], target[2])
    assert one.output.shape == () and rl.allclose(one.output, out[2])
    for batch in (x * 0.01, x * 10):  # both ways of predict
        assert rl.equal(m.predict(batch), m.log_prob(batch).argmax(1))
    w = m.head.weight
    assert gradcheck(lambda x: m(x, target).loss, (x.clone().requires_grad_(),))
    assert rl.autograd.grad(m(x, target).loss, w)[0].isfinite().all()


@pytest.mark.parametrize("cutoffs", [[], [0, 5], [5, 5], [5, 20], [3, 2], [2.5]])
def test_wrong_cutoffs(cutoffs):
    with pytest.raises(ValueError, match="cutoffs"):
        nn.AdaptiveLogSoftmaxWithLoss(16, 20, cutoffs)


def test_wrong_targets():
    m = nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2])
    for x, t in [((3, 4), [0, 1]), ((4,), [0]), ((2, 4), [0, 6]), ((2, 4), [-1, 0])]:
        with pytest.raises(RuntimeError, match="AdaptiveLogSoftmaxWithLoss"):
            m(rl.zeros(x), rl.tensor(t))


def test_windows_that_begin_at_one_place():
    """Adaptive pools that give more than they get: every window holds the same element."""
    for dtype in (rl.float32, rl.float64):
        x = rl.zeros(2, 3, 1, 2, dtype=dtype, requires_grad=True)
        g = rl.arange(2 * 3 * 6 * 12).reshape(2, 3, 6, 12).to(dtype)
        F.adaptive_avg_pool2d(x, (6, 12)).backward(g)
        assert rl.equal(x.grad, g.reshape(2, 3, 6, 2, 6).sum((2, 4)).reshape(2, 3, 1, 2))
