"""Special functions against SciPy; tests/test_special.py goes to the extremes with mpmath."""

import numpy as np
from scipy import special

from ops.sample import C, OpSample, T, V


def unary(name, ref, lo, hi, **kw):
    kw.setdefault("slack", 16)
    return OpSample(name, ref, [C(T(3, 5, lo=lo, hi=hi)), C(T(lo=lo, hi=hi)), C(T(0, 4))], **kw)


def binary(name, ref, a, b, **kw):
    kw.setdefault("slack", 32)
    (alo, ahi), (blo, bhi) = a, b
    calls = [C(T(3, 4, lo=alo, hi=ahi), T(3, 4, lo=blo, hi=bhi)),
             C(T(2, 1, lo=alo, hi=ahi), T(3, lo=blo, hi=bhi)),
             C(T(0, 4), T(0, 4)), C(T(lo=alo, hi=ahi), T(lo=blo, hi=bhi))]  # fmt: skip
    return OpSample(name, ref, calls, **kw)


def polynomial(name, ref, shifted=False):
    x = V(np.array([-0.9, -0.3, 0.2, 0.7, 1.5, -1.0, 1.0, 0.0]))
    degrees = V(np.array([0.0, 1, 2, 3, 4, 5, 7, 12]))
    column = V(np.arange(4.0)[:, None])

    def f(x, n):
        return ref(np.asarray(n).astype(int), 2 * x - 1 if shifted else x)

    return OpSample(name, f, [C(x, degrees), C(x, column), C(x, 3.0)], slack=400, grad=False)


def chebyshev_v(n, x):  # of the third kind: V_n = U_n - U_(n-1)
    return special.eval_chebyu(n, x) - np.where(
        n > 0, special.eval_chebyu(np.maximum(n - 1, 0), x), 0
    )


def chebyshev_w(n, x):
    return special.eval_chebyu(n, x) + np.where(
        n > 0, special.eval_chebyu(np.maximum(n - 1, 0), x), 0
    )


ROWS = [
    unary("special.erfcx", special.erfcx, -2, 20),
    unary("special.ndtr", special.ndtr, -4, 4),
    unary("special.log_ndtr", special.log_ndtr, -15, 4),
    unary("special.ndtri", special.ndtri, 0.01, 0.99),
    unary("special.entr", special.entr, 0.1, 4),
    unary("special.i0e", special.i0e, -20, 20),
    unary("special.i1", special.i1, -4, 4, slack=32),
    unary("special.i1e", special.i1e, -20, 20),
    unary("special.bessel_j0", special.j0, -30, 30, grad=False),
    unary("special.bessel_j1", special.j1, -30, 30, grad=False),
    unary("special.bessel_y0", special.y0, 0.1, 30, grad=False),
    unary("special.bessel_y1", special.y1, 0.1, 30, grad=False, slack=64),
    unary("special.modified_bessel_i0", special.i0, -4, 4, grad=False, slack=32),
    unary("special.modified_bessel_i1", special.i1, -4, 4, grad=False, slack=32),
    unary("special.modified_bessel_k0", special.k0, 0.1, 9, grad=False),
    unary("special.modified_bessel_k1", special.k1, 0.1, 9, grad=False, slack=32),
    unary("special.scaled_modified_bessel_k0", special.k0e, 0.1, 30, grad=False),
    unary("special.scaled_modified_bessel_k1", special.k1e, 0.1, 30, grad=False, slack=32),
    unary("special.airy_ai", lambda x: special.airy(x)[0], -12, 8, grad=False, slack=64),
    unary("special.spherical_bessel_j0", lambda x: special.spherical_jn(0, x), 0.1, 9, grad=False),
    binary("special.xlog1py", special.xlog1py, (-2, 2), (-0.5, 3)),
    binary("special.zeta", special.zeta, (1.5, 8), (0.5, 9), grad=False),
    binary("igamma", special.gammainc, (0.5, 9), (0.2, 15), grad=False,
           aliases=("special.gammainc",)),
    binary("igammac", special.gammaincc, (0.5, 9), (0.2, 15), grad=False,
           aliases=("special.gammaincc",)),
    polynomial("special.chebyshev_polynomial_t", special.eval_chebyt),
    polynomial("special.chebyshev_polynomial_u", special.eval_chebyu),
    polynomial("special.chebyshev_polynomial_v", chebyshev_v),
    polynomial("special.chebyshev_polynomial_w", chebyshev_w),
    polynomial("special.shifted_chebyshev_polynomial_t", special.eval_chebyt, True),
    polynomial("special.shifted_chebyshev_polynomial_u", special.eval_chebyu, True),
    polynomial("special.shifted_chebyshev_polynomial_v", chebyshev_v, True),
    polynomial("special.shifted_chebyshev_polynomial_w", chebyshev_w, True),
    polynomial("special.hermite_polynomial_h", special.eval_hermite),
    polynomial("special.hermite_polynomial_he", special.eval_hermitenorm),
    polynomial("special.laguerre_polynomial_l", special.eval_laguerre),
    polynomial("special.legendre_polynomial_p", special.eval_legendre),
]  # fmt: skip
