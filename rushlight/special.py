"""Special functions under the names of the ``special`` namespace."""

# ruff: noqa: F403, F405 -- the polynomials are made in a loop, and ops come from the table

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight._names.missing import names_missing_from
from rushlight._names.publish import publish
from rushlight._places.special import *
from rushlight._places.special import __all__ as _ops
from rushlight.types import Number

__all__ = [
    *_ops, "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "chebyshev_polynomial_t",
    "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w",
    "hermite_polynomial_h", "hermite_polynomial_he", "i0e", "i1e", "laguerre_polynomial_l",
    "legendre_polynomial_p", "modified_bessel_k0", "modified_bessel_k1",
    "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w", "spherical_bessel_j0",
]  # fmt: skip

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
