"""Bessel functions: one op, by kind and order."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor

_J, _Y, _K, _K_SCALED, _I_SCALED, _SPHERICAL = range(6)


def i0e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """exp(-|x|) i0(x), which does not overflow.

    Arguments:
        input: real numbers.
        out: a tensor to write the result into.

    Example:
        >>> rl.special.i0e(rl.tensor([0.5, 2.0]))
        tensor([0.6450, 0.3085])
    """
    return _C._special_bessel(input, _I_SCALED, 0, out=out)


def i1e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """exp(-|x|) i1(x), which does not overflow.

    Arguments:
        input: real numbers.
        out: a tensor to write the result into.

    Example:
        >>> rl.special.i1e(rl.tensor([0.5, 2.0]))
        tensor([0.1564, 0.2153])
    """
    return _C._special_bessel(input, _I_SCALED, 1, out=out)


def bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Bessel function of the first kind of order 0.

    Arguments:
        input: real numbers.
        out: a tensor to write the result into.

    Example:
        >>> rl.special.bessel_j0(rl.tensor([0.5, 2.0]))
        tensor([0.9385, 0.2239])
    """
    return _C._special_bessel(input, _J, 0, out=out)


def bessel_j1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Bessel function of the first kind of order 1.

    Arguments:
        input: real numbers.
        out: a tensor to write the result into.

    Example:
        >>> rl.special.bessel_j1(rl.tensor([0.5, 2.0]))
        tensor([0.2423, 0.5767])
    """
    return _C._special_bessel(input, _J, 1, out=out)


def bessel_y0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Bessel function of the second kind of order 0.

    Arguments:
        input: real numbers.
        out: a tensor to write the result into.

    Example:
        >>> rl.special.bessel_y0(rl.tensor([0.5, 2.0]))
        tensor([-0.4445,  0.5104])
    """
    return _C._special_bessel(input, _Y, 0, out=out)


def bessel_y1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Bessel function of the second kind of order 1.

    Arguments:
        input: real numbers.
        out: a tensor to write the result into.

    Example:
        >>> rl.special.bessel_y1(rl.tensor([0.5, 2.0]))
        tensor([-1.4715, -0.1070])
    """
    return _C._special_bessel(input, _Y, 1, out=out)


def modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the second kind of order 0.

    Arguments:
        input: real numbers.
        out: a tensor to write the result into.

    Example:
        >>> rl.special.modified_bessel_k0(rl.tensor([0.5, 2.0]))
        tensor([0.9244, 0.1139])
    """
    return _C._special_bessel(input, _K, 0, out=out)


def modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the second kind of order 1.

    Arguments:
        input: real numbers.
        out: a tensor to write the result into.

    Example:
        >>> rl.special.modified_bessel_k1(rl.tensor([0.5, 2.0]))
        tensor([1.6564, 0.1399])
    """
    return _C._special_bessel(input, _K, 1, out=out)


def scaled_modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """exp(x) modified_bessel_k0(x), which does not underflow.

    Arguments:
        input: real numbers.
        out: a tensor to write the result into.

    Example:
        >>> rl.special.scaled_modified_bessel_k0(rl.tensor([0.5, 2.0]))
        tensor([1.5241, 0.8416])
    """
    return _C._special_bessel(input, _K_SCALED, 0, out=out)


def scaled_modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """exp(x) modified_bessel_k1(x), which does not underflow.

    Arguments:
        input: real numbers.
        out: a tensor to write the result into.

    Example:
        >>> rl.special.scaled_modified_bessel_k1(rl.tensor([0.5, 2.0]))
        tensor([2.7310, 1.0335])
    """
    return _C._special_bessel(input, _K_SCALED, 1, out=out)


def spherical_bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """sin(x) / x, 1 at zero: the spherical Bessel function of order 0.

    Arguments:
        input: real numbers.
        out: a tensor to write the result into.

    Example:
        >>> rl.special.spherical_bessel_j0(rl.tensor([0.5, 2.0]))
        tensor([0.9589, 0.4546])
    """
    return _C._special_bessel(input, _SPHERICAL, 0, out=out)
