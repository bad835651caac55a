"""Special functions over their whole ranges, against mpmath; derivatives; dtypes and errors."""

import math

import mpmath
import numpy as np
import pytest

import rushlight as rl
from rushlight import special

mpmath.mp.dps = 40
POSITIVE = [1e-300, 1e-20, 1e-8, 1e-3, 0.1, 0.5, 1.0, 1.5, 2.0, 3.7, 7.99, 8.0, 12.3, 24.9, 25.0,
            30.5, 77.7, 250.0, 690.0]  # fmt: skip
BOTH = [*POSITIVE, *(-x for x in POSITIVE)]
root2 = mpmath.sqrt(2)

# name -> (mpmath's function, points, allowed units in the last place, also of the size 1)
CASES = {
    "erfcx": (lambda x: mpmath.exp(x * x) * mpmath.erfc(x), [*POSITIVE, -0.5, -3.0, -20.0], 6, 0),
    "ndtr": (lambda x: mpmath.erfc(-x / root2) / 2, [x for x in BOTH if x > -37], 6, 0),
    "log_ndtr": (
        lambda x: mpmath.log(mpmath.erfc(-x / root2) / 2),
        [x for x in BOTH if -37 < x < 6],
        8,
        0,
    ),
    "ndtri": (
        lambda p: root2 * mpmath.erfinv(2 * p - 1),
        [0.01, 0.2, 0.3, 0.5, 0.77, 0.9, 0.999],
        8,
        0,
    ),
    "i0e": (lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)), BOTH, 12, 0),
    "i1e": (lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)), BOTH, 12, 0),
    "i1": (lambda x: mpmath.besseli(1, x), BOTH, 300, 0),
    "bessel_j0": (lambda x: mpmath.besselj(0, x), BOTH, 4, 4),
    "bessel_j1": (lambda x: mpmath.besselj(1, x), BOTH, 4, 4),
    "bessel_y0": (lambda x: mpmath.bessely(0, x), POSITIVE, 8, 8),
    "bessel_y1": (lambda x: mpmath.bessely(1, x), POSITIVE, 8, 8),
    "modified_bessel_k0": (lambda x: mpmath.besselk(0, x), POSITIVE, 16, 0),
    "modified_bessel_k1": (lambda x: mpmath.besselk(1, x), POSITIVE, 16, 0),
    "scaled_modified_bessel_k0": (lambda x: mpmath.besselk(0, x) * mpmath.exp(x), POSITIVE, 16, 0),
    "scaled_modified_bessel_k1": (lambda x: mpmath.besselk(1, x) * mpmath.exp(x), POSITIVE, 16, 0),
    "airy_ai": (mpmath.airyai, [*np.linspace(-12, 4, 33), -80.5, 9.0, 50.0], 24, 4),
    "spherical_bessel_j0": (lambda x: mpmath.sin(x) / x, [0.1, 1.0, -2.0, 9.0], 8, 4),
}


def assert_units(got, want, units, of_one, what):
    for g, w, x in zip(got, want, what, strict=True):
        limit = 2.3e-16 * (units * abs(w) + of_one)
        assert abs(mpmath.mpf(g) - w) <= limit + mpmath.mpf(5e-324), (x, g, mpmath.nstr(w, 20))


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    f, points, units, of_one = CASES[name]
    got = getattr(special, name)(rl.tensor(points, dtype=rl.float64)).tolist()
    assert_units(got, [f(mpmath.mpf(x)) for x in points], units, of_one, points)
    single = getattr(special, name)(rl.tensor(points, dtype=rl.float32))
    want = getattr(special, name)(rl.tensor(points, dtype=rl.float32).double()).float()
    np.testing.assert_allclose(single.numpy(), want.numpy(), rtol=2e-7, atol=1e-45)


def test_ndtri_in_the_tails():
    p = [1e-300, 1e-100, 1e-20, 1e-10, 1e-5, 0.05, 0.15]
    z = special.ndtri(rl.tensor(p, dtype=rl.float64))
    np.testing.assert_allclose(special.log_ndtr(z).numpy(), np.log(p), rtol=4e-15)
    assert special.ndtri(1 - rl.tensor([0.25, 0.0625])).allclose(-special.ndtri(rl.tensor(
        [0.25, 0.0625])))  # fmt: skip


def test_incomplete_gamma():
    pairs = [(1e-5, 1e-3), (0.1, 0.5), (0.5, 0.1), (1.0, 1.0), (2.5, 0.3), (2.5, 30.0),
             (30.0, 20.0), (30.0, 45.0), (150.0, 151.0), (1e3, 950.0), (5e3, 5.1e3), (1e5, 1e5),
             (1e5, 1.005e5),
             (1e5, 0.99e5), (1e8, 1e8 + 5e3)]  # fmt: skip
    a, x = (rl.tensor(column, dtype=rl.float64) for column in zip(*pairs, strict=True))
    mpmath.mp.dps = 60
    lower = [mpmath.gammainc(p, 0, q, regularized=True) for p, q in pairs[:-1]]
    upper = [mpmath.gammainc(p, q, mpmath.inf, regularized=True) for p, q in pairs[:-1]]
    mpmath.mp.dps = 40
    assert_units(rl.igamma(a, x).tolist()[:-1], lower, 300, 8, pairs[:-1])
    assert_units(rl.igammac(a, x).tolist()[:-1], upper, 300, 8, pairs[:-1])
    total = rl.igamma(a, x) + rl.igammac(a, x)
    assert total.allclose(rl.ones_like(total), rtol=0, atol=1e-15)
    inf = math.inf
    edges = [(0.0, 1.0, 1), (1.0, 0.0, 0), (0.0, 0.0, math.nan), (inf, 1.0, 0), (1.0, inf, 1),
             (-1.0, 1.0, math.nan), (1.0, -1.0, math.nan), (inf, inf, math.nan)]  # fmt: skip
    for p, q, want in edges:
        got = rl.igamma(rl.tensor(p), rl.tensor(q)).item()
        assert got == want or (math.isnan(want) and math.isnan(got)), (p, q, got)


def test_zeta():
    pairs = [(1.01, 1.0), (2.0, 1.0), (2.5, 0.01), (3.0, -2.5), (4.0, -30.25), (12.0, 3.0),
             (50.0, 2.0), (2.0, 1e6), (30.0, 1e-3)]  # fmt: skip
    s, q = (rl.tensor(column, dtype=rl.float64) for column in zip(*pairs, strict=True))

    def want(s, q):
        shift = 0 if q > 0 else math.ceil(-q) + 1
        near = mpmath.fsum((mpmath.mpf(q) + k) ** (-s) for k in range(shift))
        return near + mpmath.zeta(s, mpmath.mpf(q) + shift)

    assert_units(special.zeta(s, q).tolist(), [want(*p) for p in pairs], 16, 8, pairs)
    assert special.zeta(2, rl.tensor([1.0]))[0].item() == pytest.approx(math.pi**2 / 6)
    assert special.zeta(rl.tensor([1.0, 0.5]), 1.0).tolist()[0] == math.inf
    assert special.zeta(rl.tensor([2.0]), -3.0).item() == math.inf
    assert math.isfinite(special.zeta(rl.tensor([2.0], dtype=rl.float64), -1e15 - 0.5).item())


def test_limits():
    inf, nan = math.inf, math.nan
    x = rl.tensor([-inf, inf, nan, 0.0], dtype=rl.float64)
    limits = {
        "erfcx": [inf, 0, nan, 1], "ndtr": [0, 1, nan, 0.5],
        "log_ndtr": [-inf, 0, nan, math.log(0.5)],
        "i0e": [0, 0, nan, 1], "i1e": [0, 0, nan, 0], "bessel_j0": [0, 0, nan, 1],
        "bessel_j1": [0, 0, nan, 0], "bessel_y0": [nan, 0, nan, -inf],
        "bessel_y1": [nan, 0, nan, -inf], "modified_bessel_k0": [nan, 0, nan, inf],
        "scaled_modified_bessel_k1": [nan, 0, nan, inf], "entr": [-inf, -inf, nan, 0],
    }  # fmt: skip
    for name, want in limits.items():
        np.testing.assert_array_equal(getattr(special, name)(x).numpy(), want, err_msg=name)
    p = rl.tensor([0.0, 1.0, -0.1, 1.1, nan])
    np.testing.assert_array_equal(special.ndtri(p).numpy(), [-inf, inf, nan, nan, nan])


@pytest.mark.parametrize(
    "name",
    [
        "erfcx",
        "ndtr",
        "log_ndtr",
        "entr",
        "i0e",
        "i1",
        "i1e",
        "bessel_j0",
        "bessel_j1",
        "bessel_y0",
        "bessel_y1",
        "modified_bessel_k0",
        "modified_bessel_k1",
        "scaled_modified_bessel_k0",
        "scaled_modified_bessel_k1",
    ],
)
def test_gradients(name):
    x = rl.tensor([0.3, 1.1, 2.7], dtype=rl.float64, requires_grad=True)
    f = getattr(special, name)
    assert rl.autograd.gradcheck(f, (x,), check_forward_ad=True)
    assert rl.autograd.gradgradcheck(f, (x,))


def test_gradients_of_two():
    x = rl.tensor([0.3, 1.1, 2.7], dtype=rl.float64, requires_grad=True)
    order = rl.tensor([2.5, 3.0, 1.5], dtype=rl.float64)
    for f in (rl.igamma, rl.igammac, special.zeta):
        assert rl.autograd.gradcheck(lambda x, f=f: f(order, x), (x,))
        with pytest.raises(NotImplementedError, match="first argument"):
            f(order.clone().requires_grad_(), x).sum().backward()
    assert rl.autograd.gradcheck(special.xlog1py, (order.clone().requires_grad_(), x))
    p = rl.tensor([0.01, 0.4, 0.9], dtype=rl.float64, requires_grad=True)
    assert rl.autograd.gradcheck(special.ndtri, (p,))
    zero = rl.zeros(2, dtype=rl.float64, requires_grad=True)
    (special.i1(zero) + special.bessel_j1(zero)).sum().backward()
    assert zero.grad.tolist() == [1.0, 1.0]


def test_forms():
    x = rl.rand(4, 6).double()
    for f in (special.erfcx, special.i0e, special.bessel_j1):
        out = rl.empty(6, 4, dtype=rl.float64).mT
        assert f(x, out=out) is out and out.equal(f(x))
        assert f(x[:, ::2]).equal(f(x)[:, ::2])
        assert f(rl.arange(3)).dtype == rl.float32
        assert f(x.half()).dtype == rl.float16
        with pytest.raises(RuntimeError, match="complex"):
            f(x.to(rl.complex64))
    y = x.float()
    assert y.igamma_(y).equal(rl.igamma(x.float(), x.float()))
    assert special.chebyshev_polynomial_t(x, 3).allclose(4 * x**3 - 3 * x)
    assert special.hermite_polynomial_h(x, rl.tensor(-1)).abs().max() == 0
    for name in special.__all__:
        assert callable(getattr(special, name)), name


def test_polygamma_of_large_numbers_returns_at_once():
    # At a large -x a sum over all terms up to zero would never end.
    x = rl.tensor([-0.5, -1.5, -10.25, -100.25, 0.5, 3.0], dtype=rl.float64)
    for n in (1, 2, 3, 6):
        want = [float(mpmath.polygamma(n, v)) for v in x.tolist()]
        np.testing.assert_allclose(rl.polygamma(n, x).numpy(), want, rtol=1e-10)
    assert rl.polygamma(2, rl.tensor(-1e15, dtype=rl.float64)).item() == -np.inf
    assert rl.polygamma(3, rl.tensor(-1e12 - 0.5, dtype=rl.float64)).item() == pytest.approx(
        194.81818206800486
    )
    assert rl.polygamma(1, rl.tensor(3e300, dtype=rl.float64)).item() == pytest.approx(1 / 3e300)
    rl.polygamma(10**12, x)


def test_vmap_runs_special_functions_once_for_all_samples():
    x = rl.linspace(0.5, 3, 12, dtype=rl.float64).reshape(4, 3)
    calls = [(rl.special.erfcx, (x,)), (rl.special.zeta, (x + 1, x)), (rl.igamma, (x, x.flip(0)))]
    for f, arguments in calls:
        rl._C._vmap_sample_loops()
        assert rl.func.vmap(f)(*arguments).equal(f(*arguments))
        assert rl._C._vmap_sample_loops() == {}
