"""Orthogonal polynomials: one op, by kind; the shifted ones are of 2 x - 1."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight.types import Number

_T, _U, _V, _W, _H, _HE, _L, _P = range(8)


def chebyshev_polynomial_t(
    input: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None
) -> Tensor:
    """The Chebyshev polynomial of the first kind of degree n, at x.

    Arguments:
        input: where, a tensor or a number.
        n: the degree, a tensor or a number; both broadcast.
        out: a tensor to write the result into.

    Example:
        >>> rl.special.chebyshev_polynomial_t(rl.tensor([0.25, 0.75]), rl.tensor([[2.0], [3.0]]))
        tensor([[-0.8750,  0.1250],
                [-0.6875, -0.5625]])
    """
    return _C._special_polynomial(input, n, _T, False, out=out)


def shifted_chebyshev_polynomial_t(
    input: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None
) -> Tensor:
    """The Chebyshev polynomial of the first kind of degree n, at 2 x - 1.

    Arguments:
        input: where, a tensor or a number.
        n: the degree, a tensor or a number; both broadcast.
        out: a tensor to write the result into.

    Example:
        >>> rl.special.shifted_chebyshev_polynomial_t(rl.tensor([0.25, 0.75]), 2)
        tensor([-0.5000, -0.5000])
    """
    return _C._special_polynomial(input, n, _T, True, out=out)


def chebyshev_polynomial_u(
    input: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None
) -> Tensor:
    """The Chebyshev polynomial of the second kind of degree n, at x.

    Arguments:
        input: where, a tensor or a number.
        n: the degree, a tensor or a number; both broadcast.
        out: a tensor to write the result into.

    Example:
        >>> rl.special.chebyshev_polynomial_u(rl.tensor([0.25, 0.75]), rl.tensor([[2.0], [3.0]]))
        tensor([[-0.7500,  1.2500],
                [-0.8750,  0.3750]])
    """
    return _C._special_polynomial(input, n, _U, False, out=out)


def shifted_chebyshev_polynomial_u(
    input: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None
) -> Tensor:
    """The Chebyshev polynomial of the second kind of degree n, at 2 x - 1.

    Arguments:
        input: where, a tensor or a number.
        n: the degree, a tensor or a number; both broadcast.
        out: a tensor to write the result into.

    Example:
        >>> rl.special.shifted_chebyshev_polynomial_u(rl.tensor([0.25, 0.75]), 2)
        tensor([0., 0.])
    """
    return _C._special_polynomial(input, n, _U, True, out=out)


def chebyshev_polynomial_v(
    input: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None
) -> Tensor:
    """The Chebyshev polynomial of the third kind of degree n, at x.

    Arguments:
        input: where, a tensor or a number.
        n: the degree, a tensor or a number; both broadcast.
        out: a tensor to write the result into.

    Example:
        >>> rl.special.chebyshev_polynomial_v(rl.tensor([0.25, 0.75]), rl.tensor([[2.0], [3.0]]))
        tensor([[-1.2500, -0.2500],
                [-0.1250, -0.8750]])
    """
    return _C._special_polynomial(input, n, _V, False, out=out)


def shifted_chebyshev_polynomial_v(
    input: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None
) -> Tensor:
    """The Chebyshev polynomial of the third kind of degree n, at 2 x - 1.

    Arguments:
        input: where, a tensor or a number.
        n: the degree, a tensor or a number; both broadcast.
        out: a tensor to write the result into.

    Example:
        >>> rl.special.shifted_chebyshev_polynomial_v(rl.tensor([0.25, 0.75]), 2)
        tensor([ 1., -1.])
    """
    return _C._special_polynomial(input, n, _V, True, out=out)


def chebyshev_polynomial_w(
    input: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None
) -> Tensor:
    """The Chebyshev polynomial of the fourth kind of degree n, at x.

    Arguments:
        input: where, a tensor or a number.
        n: the degree, a tensor or a number; both broadcast.
        out: a tensor to write the result into.

    Example:
        >>> rl.special.chebyshev_polynomial_w(rl.tensor([0.25, 0.75]), rl.tensor([[2.0], [3.0]]))
        tensor([[-0.2500,  2.7500],
                [-1.6250,  1.6250]])
    """
    return _C._special_polynomial(input, n, _W, False, out=out)


def shifted_chebyshev_polynomial_w(
    input: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None
) -> Tensor:
    """The Chebyshev polynomial of the fourth kind of degree n, at 2 x - 1.

    Arguments:
        input: where, a tensor or a number.
        n: the degree, a tensor or a number; both broadcast.
        out: a tensor to write the result into.

    Example:
        >>> rl.special.shifted_chebyshev_polynomial_w(rl.tensor([0.25, 0.75]), 2)
        tensor([-1.,  1.])
    """
    return _C._special_polynomial(input, n, _W, True, out=out)


def hermite_polynomial_h(
    input: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None
) -> Tensor:
    """The physicists' Hermite polynomial of degree n, at x.

    Arguments:
        input: where, a tensor or a number.
        n: the degree, a tensor or a number; both broadcast.
        out: a tensor to write the result into.

    Example:
        >>> rl.special.hermite_polynomial_h(rl.tensor([0.25, 0.75]), rl.tensor([[2.0], [3.0]]))
        tensor([[-1.7500,  0.2500],
                [-2.8750, -5.6250]])
    """
    return _C._special_polynomial(input, n, _H, False, out=out)


def hermite_polynomial_he(
    input: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None
) -> Tensor:
    """The probabilists' Hermite polynomial of degree n, at x.

    Arguments:
        input: where, a tensor or a number.
        n: the degree, a tensor or a number; both broadcast.
        out: a tensor to write the result into.

    Example:
        >>> rl.special.hermite_polynomial_he(rl.tensor([0.25, 0.75]), rl.tensor([[2.0], [3.0]]))
        tensor([[-0.9375, -0.4375],
                [-0.7344, -1.8281]])
    """
    return _C._special_polynomial(input, n, _HE, False, out=out)


def laguerre_polynomial_l(
    input: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None
) -> Tensor:
    """The Laguerre polynomial of degree n, at x.

    Arguments:
        input: where, a tensor or a number.
        n: the degree, a tensor or a number; both broadcast.
        out: a tensor to write the result into.

    Example:
        >>> rl.special.laguerre_polynomial_l(rl.tensor([0.25, 0.75]), rl.tensor([[2.0], [3.0]]))
        tensor([[ 0.5312, -0.2188],
                [ 0.3411, -0.4766]])
    """
    return _C._special_polynomial(input, n, _L, False, out=out)


def legendre_polynomial_p(
    input: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None
) -> Tensor:
    """The Legendre polynomial of degree n, at x.

    Arguments:
        input: where, a tensor or a number.
        n: the degree, a tensor or a number; both broadcast.
        out: a tensor to write the result into.

    Example:
        >>> rl.special.legendre_polynomial_p(rl.tensor([0.25, 0.75]), rl.tensor([[2.0], [3.0]]))
        tensor([[-0.4062,  0.3438],
                [-0.3359, -0.0703]])
    """
    return _C._special_polynomial(input, n, _P, False, out=out)
