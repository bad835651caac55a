"""Bessel functions: one op, by kind and order."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor

_J, _Y, _K, _K_SCALED, _I_SCALED, _SPHERICAL = range(6)


def i0e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """exp(-|x|) i0(x)"""
    return _C._special_bessel(input, _I_SCALED, 0, out=out)


def i1e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """exp(-|x|) i1(x)"""
    return _C._special_bessel(input, _I_SCALED, 1, out=out)


def bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Bessel function of the first kind of order 0."""
    return _C._special_bessel(input, _J, 0, out=out)


def bessel_j1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Bessel function of the first kind of order 1."""
    return _C._special_bessel(input, _J, 1, out=out)


def bessel_y0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Bessel function of the second kind of order 0."""
    return _C._special_bessel(input, _Y, 0, out=out)


def bessel_y1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Bessel function of the second kind of order 1."""
    return _C._special_bessel(input, _Y, 1, out=out)


def modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the second kind of order 0."""
    return _C._special_bessel(input, _K, 0, out=out)


def modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the second kind of order 1."""
    return _C._special_bessel(input, _K, 1, out=out)


def scaled_modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """exp(x) modified_bessel_k0(x)"""
    return _C._special_bessel(input, _K_SCALED, 0, out=out)


def scaled_modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """exp(x) modified_bessel_k1(x)"""
    return _C._special_bessel(input, _K_SCALED, 1, out=out)


def spherical_bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """sin(x) / x"""
    return _C._special_bessel(input, _SPHERICAL, 0, out=out)
