"""Special functions under the names of the ``special`` namespace."""

from __future__ import annotations

# ruff: noqa: F822 -- the polynomials are made in a loop
from rushlight import _C
from rushlight._C import (
    Tensor,
    digamma,
    erf,
    erfc,
    erfinv,
    exp2,
    expm1,
    i0,
    log1p,
    log_softmax,
    logit,
    logsumexp,
    polygamma,
    sinc,
    softmax,
    xlogy,
)
from rushlight._C import digamma as psi
from rushlight._C import igamma as gammainc
from rushlight._C import igammac as gammaincc
from rushlight._C import lgamma as gammaln
from rushlight._C import mvlgamma as multigammaln
from rushlight._C import round as round
from rushlight._C import sigmoid as expit
from rushlight._names.missing import names_missing_from
from rushlight._names.publish import publish
from rushlight.types import Number

__all__ = [
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "chebyshev_polynomial_t",
    "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w", "digamma", "entr",
    "erf", "erfc", "erfcx", "erfinv", "exp2", "expit", "expm1", "gammainc", "gammaincc", "gammaln",
    "hermite_polynomial_h", "hermite_polynomial_he", "i0", "i0e", "i1", "i1e",
    "laguerre_polynomial_l", "legendre_polynomial_p", "log1p", "log_ndtr", "log_softmax", "logit",
    "logsumexp", "modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0",
    "modified_bessel_k1", "multigammaln", "ndtr", "ndtri", "polygamma", "psi", "round",
    "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w", "sinc", "softmax", "spherical_bessel_j0", "xlog1py", "xlogy",
    "zeta",
]  # fmt: skip


def erfcx(input: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """exp(x^2) erfc(x), which does not underflow."""
    return _C._special_erfcx(input, out=out)


def ndtr(input: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The standard normal distribution up to x."""
    return _C._special_ndtr(input, out=out)


def log_ndtr(input: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of ndtr, exact far out."""
    return _C._special_log_ndtr(input, out=out)


def ndtri(input: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The inverse of ndtr."""
    return _C._special_ndtri(input, out=out)


def entr(input: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """-x log(x), 0 at 0, -inf for negative x."""
    return _C._special_entr(input, out=out)


def airy_ai(input: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Airy's function Ai."""
    return _C._special_airy_ai(input, out=out)


def i1(input: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of order 1."""
    return _C._special_i1(input, out=out)


_J, _Y, _K, _K_SCALED, _I_SCALED, _SPHERICAL = range(6)


def i0e(input: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """exp(-|x|) i0(x)"""
    return _C._special_bessel(input, _I_SCALED, 0, out=out)


def i1e(input: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """exp(-|x|) i1(x)"""
    return _C._special_bessel(input, _I_SCALED, 1, out=out)


def bessel_j0(input: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The Bessel function of the first kind of order 0."""
    return _C._special_bessel(input, _J, 0, out=out)


def bessel_j1(input: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The Bessel function of the first kind of order 1."""
    return _C._special_bessel(input, _J, 1, out=out)


def bessel_y0(input: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The Bessel function of the second kind of order 0."""
    return _C._special_bessel(input, _Y, 0, out=out)


def bessel_y1(input: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The Bessel function of the second kind of order 1."""
    return _C._special_bessel(input, _Y, 1, out=out)


def modified_bessel_i0(input: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the first kind of order 0."""
    return _C.i0(input, out=out)


def modified_bessel_i1(input: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the first kind of order 1."""
    return _C._special_i1(input, out=out)


def modified_bessel_k0(input: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the second kind of order 0."""
    return _C._special_bessel(input, _K, 0, out=out)


def modified_bessel_k1(input: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the second kind of order 1."""
    return _C._special_bessel(input, _K, 1, out=out)


def scaled_modified_bessel_k0(input: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """exp(x) modified_bessel_k0(x)"""
    return _C._special_bessel(input, _K_SCALED, 0, out=out)


def scaled_modified_bessel_k1(input: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """exp(x) modified_bessel_k1(x)"""
    return _C._special_bessel(input, _K_SCALED, 1, out=out)


def spherical_bessel_j0(input: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """sin(x) / x"""
    return _C._special_bessel(input, _SPHERICAL, 0, out=out)


def xlog1py(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """input * log1p(other), 0 where input is 0."""
    return _C._special_xlog1py(input, other, out=out)


def zeta(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Hurwitz's zeta function, the sum of (other + k)^-input."""
    return _C._special_zeta(input, other, out=out)


def _polynomial(name, kind, shifted, what):
    def polynomial(
        input: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None
    ) -> Tensor:
        return _C._special_polynomial(input, n, kind, shifted, out=out)

    polynomial.__name__ = polynomial.__qualname__ = name
    polynomial.__doc__ = f"The {what} polynomial of degree n."
    globals()[name] = polynomial


for _i, _letter in enumerate("tuvw"):
    _kind = f"Chebyshev's {_letter.upper()}"
    _polynomial(f"chebyshev_polynomial_{_letter}", _i, False, _kind)
    _polynomial(f"shifted_chebyshev_polynomial_{_letter}", _i, True, f"{_kind}, of 2 x - 1:")
_polynomial("hermite_polynomial_h", 4, False, "physicists' Hermite")
_polynomial("hermite_polynomial_he", 5, False, "probabilists' Hermite")
_polynomial("laguerre_polynomial_l", 6, False, "Laguerre")
_polynomial("legendre_polynomial_p", 7, False, "Legendre")

__getattr__ = names_missing_from(__name__)

publish(globals(), "special", __all__)
