"""The transforms: sizes, dims and norms here, the work in the core's three ops."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any

from rushlight import _C
from rushlight._autocast import autocast_policy
from rushlight._C import Tensor
from rushlight._functions.out import write_out

_COMPLEX = {_C.float32: _C.complex64, _C.float64: _C.complex128}


def _as_float(op, x):
    """x with integers as the default float; half types raise, as in PyTorch on the CPU."""
    if x.is_floating_point():
        if x.dtype not in _COMPLEX:
            raise _C.DTypeError(f"{op}: not implemented for {x.dtype}: convert with .float()")
        return x
    return x if x.is_complex() else x.to(_C.get_default_dtype())


def _as_complex(op, x):
    x = _as_float(op, x)
    return x if x.is_complex() else x.to(_COMPLEX[x.dtype])


def _as_real(op, x):
    if x.is_complex():
        raise _C.DTypeError(f"{op}: needs real numbers, got {x.dtype}")
    return _as_float(op, x)


def _scale(op, norm, count, forward):
    if norm not in (None, "backward", "forward", "ortho"):
        raise RuntimeError(f"{op}: norm must be 'backward', 'forward' or 'ortho', got {norm!r}")
    if norm == "ortho":
        return 1 / sqrt(count)
    return 1 / count if (norm == "forward") == forward else 1.0


def _wrapped(op, x, dim):
    if not -x.ndim <= dim < x.ndim:
        low, high = (-x.ndim, x.ndim - 1) if x.ndim else (-1, 0)
        raise IndexError(f"{op}: dim {dim} is out of range (from {low} to {high})")
    return dim % x.ndim


def _dims(op, x, s, dim, default=None):
    """The dims, and the sizes asked for (None: as they are)."""
    if dim is None and default is not None:
        dim = default
    if isinstance(dim, int):
        dim = (dim,)
    if isinstance(s, int):
        s = (s,)
    if dim is None:
        dims = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
        if s is not None and len(s) > x.ndim:
            raise RuntimeError(f"{op}: s has {len(s)} sizes for {x.ndim} dimensions")
        dims = list(dims)
    else:
        dims = [_wrapped(op, x, d) for d in dim]
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"{op}: dims must be unique, got {tuple(dims)}")
    if s is not None and len(s) != len(dims):
        raise RuntimeError(f"{op}: s has {len(s)} sizes for {len(dims)} dims")
    return dims, [None] * len(dims) if s is None else [None if n == -1 else n for n in s]


def _resized(op, x, dims, sizes):
    """x cut, or filled up with zeros, along dims."""
    pad = [0] * (2 * x.ndim)
    for d, n in zip(dims, sizes, strict=True):
        if n is None:
            continue
        if n < 1:
            raise RuntimeError(f"{op}: a size must be at least 1, got {n}")
        if n < x.shape[d]:
            x = x.narrow(d, 0, n)
        pad[2 * (x.ndim - 1 - d) + 1] = n - x.shape[d]
    return _C.constant_pad_nd(x, pad) if any(pad) else x


def _check_sizes(op, x, dims):
    for d in dims:
        if x.shape[d] < 1:
            raise RuntimeError(f"{op}: needs at least one element along dim {d}, got shape "
                               f"{list(x.shape)}")  # fmt: skip


def _c2c(op, x, s, dim, norm, forward, out, default=None):
    x = _as_complex(op, x)
    dims, sizes = _dims(op, x, s, dim, default)
    x = _resized(op, x, dims, sizes)
    _check_sizes(op, x, dims)
    count = prod(x.shape[d] for d in dims)
    result = _C._fft_c2c(x, dims, _scale(op, norm, count, forward), forward)
    return write_out(op, result, out)


def _r2c(op, x, s, dim, norm, forward, out, default=None):
    x = _as_real(op, x)
    dims, sizes = _dims(op, x, s, dim, default)
    if not dims:
        raise RuntimeError(f"{op}: needs at least one dim")
    x = _resized(op, x, dims, sizes)
    _check_sizes(op, x, dims)
    count = prod(x.shape[d] for d in dims)
    result = _C._fft_r2c(x, dims, _scale(op, norm, count, forward))
    return write_out(op, result if forward else result.conj().resolve_conj(), out)


def _c2r(op, x, s, dim, norm, forward, out, default=None):
    x = _as_complex(op, x)
    dims, sizes = _dims(op, x, s, dim, default)
    if not dims:
        raise RuntimeError(f"{op}: needs at least one dim")
    last = 2 * (x.shape[dims[-1]] - 1) if sizes[-1] is None else sizes[-1]
    if last < 1:
        raise RuntimeError(f"{op}: the result would have {last} elements along dim {dims[-1]}; "
                           "pass its size")  # fmt: skip
    x = _resized(op, x, dims, [*sizes[:-1], last // 2 + 1])
    _check_sizes(op, x, dims)
    count = prod(x.shape[d] for d in dims[:-1]) * last
    x = x.conj() if forward else x
    result = _C._fft_c2r(x, dims, _scale(op, norm, count, forward), last)
    return write_out(op, result, out)


def _one(n: int | None, dim: int) -> tuple[Any, tuple[int]]:
    if n is not None and n < 1:  # -1 stands for "as it is" among several sizes only
        raise RuntimeError(f"fft.fft: a size must be at least 1, got {n}")
    return (None if n is None else (n,)), (dim,)


@autocast_policy(cpu="float32")
def fft(input: Tensor, n: int | None = None, dim: int | Sequence[int] | None = -1,
        norm: str | None = None, *, out: Tensor | None = None) -> Tensor:  # fmt: skip
    """The transform along one dim, cut or filled up to n elements.

    Arguments:
        input: any tensor.
        n: length before the transform: cut or filled up with zeros.
        dim: the dim to transform.
        norm: 'backward' (None) divides inverses by n, 'forward' transforms, 'ortho' all by sqrt(n).
        out: a tensor to write the result into.

    Example:
        >>> rl.fft.fft(rl.tensor([1.0, 2.0, 3.0, 4.0]), n=2)
        tensor([ 3.+0.j, -1.+0.j])
    """
    return _c2c("fft.fft", input, *_one(n, dim), norm, True, out)  # type: ignore[arg-type]


@autocast_policy(cpu="float32")
def ifft(input: Tensor, n: int | None = None, dim: int | Sequence[int] | None = -1,
         norm: str | None = None, *, out: Tensor | None = None) -> Tensor:  # fmt: skip
    """The inverse of fft.

    Arguments:
        input: any tensor.
        n: length before the transform.
        dim: the dim to transform.
        norm: 'backward' (None) divides inverses by n, 'forward' transforms, 'ortho' all by sqrt(n).
        out: a tensor to write the result into.

    Example:
        >>> rl.fft.ifft(rl.tensor([10 + 0j, -2 + 2j, -2 + 0j, -2 - 2j]), norm="forward")
        tensor([ 4.+0.j,  8.+0.j, 12.+0.j, 16.+0.j])
    """
    return _c2c("fft.ifft", input, *_one(n, dim), norm, False, out)  # type: ignore[arg-type]


@autocast_policy(cpu="float32")
def rfft(input: Tensor, n: int | None = None, dim: int | Sequence[int] | None = -1,
         norm: str | None = None, *, out: Tensor | None = None) -> Tensor:  # fmt: skip
    """The first half of the transform of real numbers; the other half is its mirror image.

    Arguments:
        input: a real tensor.
        n: length before the transform.
        dim: the dim to transform.
        norm: 'backward' (None) divides inverses by n, 'forward' transforms, 'ortho' all by sqrt(n).
        out: a tensor to write the result into.

    Example:
        >>> rl.fft.rfft(rl.tensor([1.0, 2.0, 3.0, 4.0]), norm="ortho")
        tensor([ 5.+0.j, -1.+1.j, -1.+0.j])
    """
    return _r2c("fft.rfft", input, *_one(n, dim), norm, True, out)  # type: ignore[arg-type]


@autocast_policy(cpu="float32")
def irfft(input: Tensor, n: int | None = None, dim: int | Sequence[int] | None = -1,
          norm: str | None = None, *, out: Tensor | None = None) -> Tensor:  # fmt: skip
    """The inverse of rfft; n is the length of the result, by default an even one.

    Arguments:
        input: the half that rfft gives.
        n: length of the result; None is 2 (m - 1), which is even: say it for an odd one.
        dim: the dim to transform.
        norm: 'backward' (None) divides inverses by n, 'forward' transforms, 'ortho' all by sqrt(n).
        out: a tensor to write the result into.

    Example:
        >>> rl.fft.irfft(rl.tensor([10 + 0j, -2 + 2j, -2 + 0j]), n=4)
        tensor([1., 2., 3., 4.])
    """
    return _c2r("fft.irfft", input, *_one(n, dim), norm, False, out)  # type: ignore[arg-type]


@autocast_policy(cpu="float32")
def hfft(input: Tensor, n: int | None = None, dim: int | Sequence[int] | None = -1,
         norm: str | None = None, *, out: Tensor | None = None) -> Tensor:  # fmt: skip
    """The real transform of a Hermitian sequence, given by its first half.

    Arguments:
        input: the first half of a Hermitian sequence.
        n: length of the result; None is 2 (m - 1).
        dim: the dim to transform.
        norm: 'backward' (None) divides inverses by n, 'forward' transforms, 'ortho' all by sqrt(n).
        out: a tensor to write the result into.

    Example:
        >>> rl.fft.hfft(rl.tensor([1.0 + 0j, 2.0 + 0j, 3.0 + 0j]), n=4)
        tensor([ 8., -2.,  0., -2.])
    """
    return _c2r("fft.hfft", input, *_one(n, dim), norm, True, out)  # type: ignore[arg-type]


@autocast_policy(cpu="float32")
def ihfft(input: Tensor, n: int | None = None, dim: int | Sequence[int] | None = -1,
          norm: str | None = None, *, out: Tensor | None = None) -> Tensor:  # fmt: skip
    """The inverse of hfft.

    Arguments:
        input: a real tensor.
        n: length before the transform.
        dim: the dim to transform.
        norm: 'backward' (None) divides inverses by n, 'forward' transforms, 'ortho' all by sqrt(n).
        out: a tensor to write the result into.

    Example:
        >>> rl.fft.ihfft(rl.tensor([1.0, 2.0, 3.0, 4.0]), norm="forward")
        tensor([10.-0.j, -2.-2.j, -2.-0.j])
    """
    return _r2c("fft.ihfft", input, *_one(n, dim), norm, False, out)  # type: ignore[arg-type]


@autocast_policy(cpu="float32")
def fft2(input: Tensor, s: Sequence[int] | None = None, dim: int | Sequence[int] | None = (-2, -1),
         norm: str | None = None, *, out: Tensor | None = None) -> Tensor:  # fmt: skip
    """The transform along two dims.

    Arguments:
        input: any tensor.
        s: length of each dim before the transform; -1 keeps one.
        dim: the two dims to transform.
        norm: 'backward' (None) divides inverses by n, 'forward' transforms, 'ortho' all by sqrt(n).
        out: a tensor to write the result into.

    Example:
        >>> rl.fft.fft2(rl.tensor([[1.0, 2.0], [3.0, 4.0]]), norm="forward")
        tensor([[ 2.5000+0.j, -0.5000+0.j],
                [-1.0000+0.j,  0.0000+0.j]])
    """
    return _c2c("fft.fft2", input, s, dim, norm, True, out)


@autocast_policy(cpu="float32")
def ifft2(input: Tensor, s: Sequence[int] | None = None, dim: int | Sequence[int] | None = (-2, -1),
          norm: str | None = None, *, out: Tensor | None = None) -> Tensor:  # fmt: skip
    """The inverse of fft2.

    Arguments:
        input: any tensor.
        s: length of each dim before the transform; -1 keeps one.
        dim: the two dims to transform.
        norm: 'backward' (None) divides inverses by n, 'forward' transforms, 'ortho' all by sqrt(n).
        out: a tensor to write the result into.

    Example:
        >>> rl.fft.ifft2(rl.tensor([[10.0, -2.0], [-4.0, 0.0]]), dim=(0, 1))
        tensor([[1.+0.j, 2.+0.j],
                [3.+0.j, 4.+0.j]])
    """
    return _c2c("fft.ifft2", input, s, dim, norm, False, out)


@autocast_policy(cpu="float32")
def rfft2(input: Tensor, s: Sequence[int] | None = None, dim: int | Sequence[int] | None = (-2, -1),
          norm: str | None = None, *, out: Tensor | None = None) -> Tensor:  # fmt: skip
    """The transform of real numbers along two dims, the last one halved.

    Arguments:
        input: a real tensor.
        s: length of each dim before the transform; -1 keeps one.
        dim: the two dims to transform.
        norm: 'backward' (None) divides inverses by n, 'forward' transforms, 'ortho' all by sqrt(n).
        out: a tensor to write the result into.

    Example:
        >>> rl.fft.rfft2(rl.eye(2, 3), norm="ortho")
        tensor([[0.8165+0.0000j, 0.2041-0.3536j],
                [0.0000+0.0000j, 0.6124+0.3536j]])
    """
    return _r2c("fft.rfft2", input, s, dim, norm, True, out)


@autocast_policy(cpu="float32")
def irfft2(input: Tensor, s: Sequence[int] | None = None,
           dim: int | Sequence[int] | None = (-2, -1), norm: str | None = None, *,
           out: Tensor | None = None) -> Tensor:  # fmt: skip
    """The inverse of rfft2.

    Arguments:
        input: any tensor.
        s: length of each dim before the transform (of the result for the last); -1 keeps one.
        dim: the two dims to transform.
        norm: 'backward' (None) divides inverses by n, 'forward' transforms, 'ortho' all by sqrt(n).
        out: a tensor to write the result into.

    Example:
        >>> rl.fft.irfft2(rl.tensor([[6.0, 0.0], [0.0, 3.0]]), s=(2, 3))
        tensor([[2.0000, 0.5000, 0.5000],
                [0.0000, 1.5000, 1.5000]])
    """
    return _c2r("fft.irfft2", input, s, dim, norm, False, out)


def hfft2(input: Tensor, s: Sequence[int] | None = None, dim: int | Sequence[int] | None = (-2, -1),
          norm: str | None = None, *, out: Tensor | None = None) -> Tensor:  # fmt: skip
    """The real transform of a Hermitian signal along two dims, the last one given by half.

    Arguments:
        input: any tensor.
        s: length of each dim before the transform (of the result for the last); -1 keeps one.
        dim: the two dims to transform.
        norm: 'backward' (None) divides inverses by n, 'forward' transforms, 'ortho' all by sqrt(n).
        out: a tensor to write the result into.

    Example:
        >>> rl.fft.hfft2(rl.tensor([[1.0, 2.0], [3.0, 4.0]]), s=(2, 3))
        tensor([[16., -2., -2.],
                [-6.,  0.,  0.]])
    """
    return _c2r("fft.hfft2", input, s, dim, norm, True, out)


def ihfft2(input: Tensor, s: Sequence[int] | None = None,
           dim: int | Sequence[int] | None = (-2, -1), norm: str | None = None, *,
           out: Tensor | None = None) -> Tensor:  # fmt: skip
    """The inverse of hfft2.

    Arguments:
        input: a real tensor.
        s: length of each dim before the transform; -1 keeps one.
        dim: the two dims to transform.
        norm: 'backward' (None) divides inverses by n, 'forward' transforms, 'ortho' all by sqrt(n).
        out: a tensor to write the result into.

    Example:
        >>> rl.fft.ihfft2(rl.tensor([[1.0, 2.0, 3.0]]), s=(2, -1))
        tensor([[ 1.0000-0.0000j, -0.2500-0.1443j],
                [ 1.0000-0.0000j, -0.2500-0.1443j]])
    """
    return _r2c("fft.ihfft2", input, s, dim, norm, False, out)


@autocast_policy(cpu="float32")
def fftn(input: Tensor, s: Sequence[int] | None = None, dim: int | Sequence[int] | None = None,
         norm: str | None = None, *, out: Tensor | None = None) -> Tensor:  # fmt: skip
    """The transform along several dims (all by default).

    Arguments:
        input: any tensor.
        s: length of each dim before the transform; -1 keeps one.
        dim: the dims to transform; None is all, or the last ones where s is given.
        norm: 'backward' (None) divides inverses by n, 'forward' transforms, 'ortho' all by sqrt(n).
        out: a tensor to write the result into.

    Example:
        >>> rl.fft.fftn(rl.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=0)
        tensor([[ 4.+0.j,  6.+0.j],
                [-2.+0.j, -2.+0.j]])
    """
    return _c2c("fft.fftn", input, s, dim, norm, True, out)


@autocast_policy(cpu="float32")
def ifftn(input: Tensor, s: Sequence[int] | None = None, dim: int | Sequence[int] | None = None,
          norm: str | None = None, *, out: Tensor | None = None) -> Tensor:  # fmt: skip
    """The inverse of fftn.

    Arguments:
        input: any tensor.
        s: length of each dim before the transform; -1 keeps one.
        dim: the dims to transform; None is all, or the last ones where s is given.
        norm: 'backward' (None) divides inverses by n, 'forward' transforms, 'ortho' all by sqrt(n).
        out: a tensor to write the result into.

    Example:
        >>> rl.fft.ifftn(rl.tensor([[1.0, 2.0], [3.0, 4.0]]), norm="ortho")
        tensor([[ 5.+0.j, -1.+0.j],
                [-2.+0.j,  0.+0.j]])
    """
    return _c2c("fft.ifftn", input, s, dim, norm, False, out)


@autocast_policy(cpu="float32")
def rfftn(input: Tensor, s: Sequence[int] | None = None, dim: int | Sequence[int] | None = None,
          norm: str | None = None, *, out: Tensor | None = None) -> Tensor:  # fmt: skip
    """The transform of real numbers along several dims, the last one halved.

    Arguments:
        input: a real tensor.
        s: length of each dim before the transform; -1 keeps one.
        dim: the dims to transform; None is all, or the last ones where s is given.
        norm: 'backward' (None) divides inverses by n, 'forward' transforms, 'ortho' all by sqrt(n).
        out: a tensor to write the result into.

    Example:
        >>> rl.fft.rfftn(rl.tensor([[1.0, 2.0], [3.0, 4.0]]), s=(3,))
        tensor([[3.+0.0000j, 0.-1.7321j],
                [7.+0.0000j, 1.-3.4641j]])
    """
    return _r2c("fft.rfftn", input, s, dim, norm, True, out)


@autocast_policy(cpu="float32")
def irfftn(input: Tensor, s: Sequence[int] | None = None, dim: int | Sequence[int] | None = None,
           norm: str | None = None, *, out: Tensor | None = None) -> Tensor:  # fmt: skip
    """The inverse of rfftn.

    Arguments:
        input: any tensor.
        s: length of each dim before the transform (of the result for the last); -1 keeps one.
        dim: the dims to transform; None is all, or the last ones where s is given.
        norm: 'backward' (None) divides inverses by n, 'forward' transforms, 'ortho' all by sqrt(n).
        out: a tensor to write the result into.

    Example:
        >>> rl.fft.irfftn(rl.tensor([[1.0, 2.0], [3.0, 4.0]]), s=(2, 3))
        tensor([[ 2.6667, -0.3333, -0.3333],
                [-1.0000,  0.0000,  0.0000]])
    """
    return _c2r("fft.irfftn", input, s, dim, norm, False, out)


def hfftn(input: Tensor, s: Sequence[int] | None = None, dim: int | Sequence[int] | None = None,
          norm: str | None = None, *, out: Tensor | None = None) -> Tensor:  # fmt: skip
    """The real transform of a Hermitian signal along several dims, the last one given by half.

    Arguments:
        input: any tensor.
        s: length of each dim before the transform (of the result for the last); -1 keeps one.
        dim: the dims to transform; None is all, or the last ones where s is given.
        norm: 'backward' (None) divides inverses by n, 'forward' transforms, 'ortho' all by sqrt(n).
        out: a tensor to write the result into.

    Example:
        >>> rl.fft.hfftn(rl.tensor([[1.0, 2.0], [3.0, 4.0]]), norm="forward")
        tensor([[ 2.5000, -0.5000],
                [-1.0000,  0.0000]])
    """
    return _c2r("fft.hfftn", input, s, dim, norm, True, out)


def ihfftn(input: Tensor, s: Sequence[int] | None = None, dim: int | Sequence[int] | None = None,
           norm: str | None = None, *, out: Tensor | None = None) -> Tensor:  # fmt: skip
    """The inverse of hfftn.

    Arguments:
        input: a real tensor.
        s: length of each dim before the transform; -1 keeps one.
        dim: the dims to transform; None is all, or the last ones where s is given.
        norm: 'backward' (None) divides inverses by n, 'forward' transforms, 'ortho' all by sqrt(n).
        out: a tensor to write the result into.

    Example:
        >>> rl.fft.ihfftn(rl.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=1)
        tensor([[ 1.5000-0.j, -0.5000-0.j],
                [ 3.5000-0.j, -0.5000-0.j]])
    """
    return _r2c("fft.ihfftn", input, s, dim, norm, False, out)
