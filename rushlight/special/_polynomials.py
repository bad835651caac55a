"""Orthogonal polynomials: one op, by kind; the shifted ones are of 2 x - 1."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight.types import Number

_T, _U, _V, _W, _H, _HE, _L, _P = range(8)


def chebyshev_polynomial_t(
    input: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None
) -> Tensor:
    """The Chebyshev's T polynomial of degree n."""
    return _C._special_polynomial(input, n, _T, False, out=out)


def shifted_chebyshev_polynomial_t(
    input: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None
) -> Tensor:
    """The Chebyshev's T, of 2 x - 1: polynomial of degree n."""
    return _C._special_polynomial(input, n, _T, True, out=out)


def chebyshev_polynomial_u(
    input: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None
) -> Tensor:
    """The Chebyshev's U polynomial of degree n."""
    return _C._special_polynomial(input, n, _U, False, out=out)


def shifted_chebyshev_polynomial_u(
    input: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None
) -> Tensor:
    """The Chebyshev's U, of 2 x - 1: polynomial of degree n."""
    return _C._special_polynomial(input, n, _U, True, out=out)


def chebyshev_polynomial_v(
    input: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None
) -> Tensor:
    """The Chebyshev's V polynomial of degree n."""
    return _C._special_polynomial(input, n, _V, False, out=out)


def shifted_chebyshev_polynomial_v(
    input: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None
) -> Tensor:
    """The Chebyshev's V, of 2 x - 1: polynomial of degree n."""
    return _C._special_polynomial(input, n, _V, True, out=out)


def chebyshev_polynomial_w(
    input: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None
) -> Tensor:
    """The Chebyshev's W polynomial of degree n."""
    return _C._special_polynomial(input, n, _W, False, out=out)


def shifted_chebyshev_polynomial_w(
    input: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None
) -> Tensor:
    """The Chebyshev's W, of 2 x - 1: polynomial of degree n."""
    return _C._special_polynomial(input, n, _W, True, out=out)


def hermite_polynomial_h(
    input: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None
) -> Tensor:
    """The physicists' Hermite polynomial of degree n."""
    return _C._special_polynomial(input, n, _H, False, out=out)


def hermite_polynomial_he(
    input: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None
) -> Tensor:
    """The probabilists' Hermite polynomial of degree n."""
    return _C._special_polynomial(input, n, _HE, False, out=out)


def laguerre_polynomial_l(
    input: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None
) -> Tensor:
    """The Laguerre polynomial of degree n."""
    return _C._special_polynomial(input, n, _L, False, out=out)


def legendre_polynomial_p(
    input: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None
) -> Tensor:
    """The Legendre polynomial of degree n."""
    return _C._special_polynomial(input, n, _P, False, out=out)
