"""Numbers that stand for whole tensors."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight import _C
from rushlight._C import Tensor
from rushlight._functions.out import write_out
from rushlight._names.publish import publish

__all__ = ["hash_tensor"]


def _as_bits(input):
    """The elements in 64 bits, as signed integers, which can be combined on every device."""
    if input.is_complex():
        raise _C.DTypeError(f"hash_tensor: not implemented for {input.dtype} tensors")
    if input.dtype == _C.uint64:
        return input.contiguous().view(_C.int64)
    if input.is_floating_point():
        return input.to(_C.float64).contiguous().view(_C.int64)
    return input.to(_C.int64)


def _folded(bits):
    """The exclusive or along the last dim, by halves."""
    count = bits.shape[-1]
    if count == 0:
        return _C.zeros(bits.shape[:-1], dtype=_C.int64, device=bits.device)
    while count > 1:
        half = count // 2
        paired = bits[..., :half] ^ bits[..., half : 2 * half]
        bits = paired if count % 2 == 0 else _C.cat([paired, bits[..., -1:]], -1)
        count = bits.shape[-1]
    return bits[..., 0]


def hash_tensor(input: Tensor, dim: int | Sequence[int] | None = (), *, keepdim: bool = False,
                mode: int = 0, out: Tensor | None = None) -> Tensor:  # fmt: skip
    """The exclusive or of the elements' bits, as float64 or int64, along dims or of all.

    Arguments:
        input: a tensor.
        dim: along which dims; () for all.
        keepdim: keep them with size 1.
        mode: only 0, exclusive or, is there.
        out: a tensor of uint64 to write the result to.

    Example:
        >>> rl.hash_tensor(rl.tensor([[1, 2], [4, 8]]), dim=1)
        tensor([ 3, 12], dtype=rushlight.uint64)
    """
    if mode != 0:
        raise RuntimeError(f"hash_tensor: mode must be 0 (exclusive or), got {mode}")
    given = () if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if input.numel() == 0 and not given:
        raise RuntimeError("hash_tensor: of an empty tensor, dim must say which dims to reduce")
    rank = max(input.ndim, 1)
    for d in given:
        if not -rank <= d < rank:
            raise IndexError(f"hash_tensor: dim {d} is out of range for {input.ndim} dimensions")
    wrapped = [d % rank for d in given] if given else list(range(input.ndim))
    dims = [d for d in range(rank) if d in wrapped]
    if given and len(dims) != len(given):
        raise RuntimeError(f"hash_tensor: a dim appears twice in {list(given)}")
    bits = _as_bits(input.detach())
    if input.ndim == 0:
        return write_out("hash_tensor", bits.clone().view(_C.uint64), out)
    others = [d for d in range(input.ndim) if d not in dims]
    kept = [input.shape[d] for d in others]
    count = 1
    for d in dims:
        count *= input.shape[d]
    result = _folded(bits.permute(*others, *dims).reshape(*kept, count))
    if keepdim:
        result = result.reshape([1 if d in dims else n for d, n in enumerate(input.shape)])
    return write_out("hash_tensor", result.contiguous().view(_C.uint64), out)


publish(globals(), "", ["hash_tensor"])
