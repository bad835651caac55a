"""Attention of sequences of different lengths that lie one behind the other, without padding."""

from __future__ import annotations

import functools
import itertools
import math
import weakref
from typing import Any, NamedTuple, overload

from rushlight import _C
from rushlight._C import Tensor

__all__ = ["AuxRequest", "varlen_attn", "varlen_attn_out"]


# The elements of tensors that a GPU was asked for, by id: a reference, the version and the place,
# the list.
_asked: dict[int, tuple[Any, tuple[int, int], list[int]]] = {}


class AuxRequest(NamedTuple):
    """What varlen_attn shall return besides its output."""

    lse: bool = False


def _ints(name, tensor):
    """The elements of a vector of ints. A model asks in every layer, and asking a GPU makes the
    program wait for it: they are kept as long as the tensor, until somebody writes to it. Nobody
    sees who writes to the host's memory (NumPy may), or to tensors of inference_mode()."""
    if not isinstance(tensor, Tensor) or tensor.dim() != 1 or tensor.dtype not in (
        _C.int32, _C.int64,
    ):  # fmt: skip
        shown = (
            f"{tensor.dtype} of shape {list(tensor.shape)}"
            if isinstance(tensor, Tensor)
            else (type(tensor).__name__)
        )
        raise TypeError(f"varlen_attn: {name} must be a vector of int32 or int64, got {shown}")
    if tensor.is_cpu or tensor.is_inference():
        return tensor.tolist()
    kept, state = _asked.get(id(tensor)), (tensor._version, tensor.data_ptr())
    if kept is None or kept[0]() is not tensor or kept[1] != state:
        forget = functools.partial(_asked.pop, id(tensor), None)
        kept = weakref.ref(tensor, lambda _: forget()), state, tensor.tolist()
        _asked[id(tensor)] = kept
    return kept[2]


def _check_lengths(name, lengths, most):
    if type(most) is not int:
        raise TypeError(f"varlen_attn: {name} must be an int, got {type(most).__name__}")
    if lengths and max(lengths) > most:
        raise ValueError(f"varlen_attn: {name} is {most}, but a sequence has {max(lengths)} tokens")


def _differences(bounds):
    return [b - a for a, b in itertools.pairwise(bounds)]


def _from_pages(key, value, table, used):
    """The keys and values of all sequences, one behind the other, out of pages."""
    if key.dim() != 4 or value.dim() != 4:
        raise _C.ShapeError(
            "varlen_attn: with block_table, key and value must be (pages, page size, heads, size), "
            f"got shapes {list(key.shape)} and {list(value.shape)}"
        )
    if not isinstance(table, Tensor):
        raise TypeError(f"varlen_attn: block_table must be a tensor, got {type(table).__name__}")
    if table.dim() != 2 or table.shape[0] != len(used) or table.dtype not in (_C.int32, _C.int64):
        raise _C.ShapeError(
            f"varlen_attn: block_table must be ({len(used)}, pages per sequence) of int32, got "
            f"{table.dtype} of shape {list(table.shape)}"
        )
    size = key.shape[1]
    if size == 0:
        raise ValueError("varlen_attn: key and value have pages of no tokens")
    if used and max(used) > size * table.shape[1]:
        raise ValueError(
            f"varlen_attn: seqused_k has {max(used)}, block_table has room for "
            f"{size * table.shape[1]} tokens"
        )
    rows = [
        (table[i, : -(-n // size)].long().unsqueeze(1) * size
         + _C.arange(size, device=table.device)).flatten()[:n]
        for i, n in enumerate(used)
    ]  # fmt: skip
    at = _C.cat(rows) if rows else _C.zeros(0, dtype=_C.int64, device=key.device)
    return key.flatten(0, 1).index_select(0, at), value.flatten(0, 1).index_select(0, at)


def _attend(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, scale, window_size, enable_gqa,
            seqused_k, block_table):  # fmt: skip
    """Output (tokens, heads, size) and sums (heads, tokens)."""
    if len(window_size) != 2:
        raise ValueError(f"varlen_attn: window_size must be (left, right), got {window_size}")
    wanted = 4 if block_table is not None else 3
    for name, x, dims in (("query", query, 3), ("key", key, wanted), ("value", value, wanted)):
        if x.dim() != dims:
            form = "(tokens, heads, size)" if dims == 3 else "(pages, page size, heads, size)"
            raise _C.ShapeError(f"varlen_attn: {name} must be {form}, got shape {list(x.shape)}")
    heads, key_heads = query.shape[1], key.shape[-2]
    if heads != key_heads and not enable_gqa:
        raise ValueError(
            f"varlen_attn: query has {heads} heads, key {key_heads}; pass enable_gqa=True"
        )
    if enable_gqa and (key_heads == 0 or heads % key_heads):
        raise ValueError(
            f"varlen_attn: the heads of key ({key_heads}) must divide those of query ({heads})"
        )
    bounds = _ints("cu_seq_q", cu_seq_q)
    _check_lengths("max_q", _differences(bounds), max_q)
    used = None if seqused_k is None else _ints("seqused_k", seqused_k)
    if used is not None and _C.is_grad_enabled() and any(
        x.requires_grad for x in (query, key, value)
    ):  # fmt: skip
        raise RuntimeError("varlen_attn: seqused_k and block_table are for inference: no gradients")
    if block_table is not None:
        if used is None:
            raise ValueError("varlen_attn: block_table needs seqused_k")
        key, value = _from_pages(key, value, block_table, used)
        starts, lengths = [sum(used[:i]) for i in range(len(used))], used
    else:
        ends = _ints("cu_seq_k", cu_seq_k)
        if not ends or ends[0] != 0 or (used is None and ends[-1] != key.shape[0]):
            raise ValueError(
                f"varlen_attn: cu_seq_k must go from 0 to the number of keys, {key.shape[0]}, got "
                f"{f'{ends[0]} to {ends[-1]}' if ends else 'nothing'}"
            )
        starts, lengths = ends[:-1], _differences(ends)
        if used is not None:
            if len(used) != len(lengths) or any(
                not 0 <= n <= m for n, m in zip(used, lengths, strict=True)
            ):
                raise ValueError(
                    "varlen_attn: seqused_k must have a length per sequence, none longer than "
                    "cu_seq_k allows"
                )
            lengths = used
    _check_lengths("max_k", lengths, max_k)
    scale = 1 / math.sqrt(max(query.shape[-1], 1)) if scale is None else scale
    return _C._varlen_attention(query, key, value, bounds, starts, lengths, scale, *window_size)


@overload
def varlen_attn(query: Tensor, key: Tensor, value: Tensor, cu_seq_q: Tensor,
                cu_seq_k: Tensor | None, max_q: int, max_k: int,
                *, return_aux: None = None, scale: float | None = None,
                window_size: tuple[int, int] = (-1, -1), enable_gqa: bool = False,
                seqused_k: Tensor | None = None, block_table: Tensor | None = None,
                num_splits: int | None = None) -> Tensor: ...  # fmt: skip
@overload
def varlen_attn(query: Tensor, key: Tensor, value: Tensor, cu_seq_q: Tensor,
                cu_seq_k: Tensor | None, max_q: int, max_k: int,
                *, return_aux: AuxRequest, scale: float | None = None,
                window_size: tuple[int, int] = (-1, -1), enable_gqa: bool = False,
                seqused_k: Tensor | None = None, block_table: Tensor | None = None,
                num_splits: int | None = None
                ) -> Tensor | tuple[Tensor, Tensor]: ...  # fmt: skip
def varlen_attn(query: Tensor, key: Tensor, value: Tensor, cu_seq_q: Tensor,
                cu_seq_k: Tensor | None, max_q: int, max_k: int,
                *, return_aux: AuxRequest | None = None, scale: float | None = None,
                window_size: tuple[int, int] = (-1, -1), enable_gqa: bool = False,
                seqused_k: Tensor | None = None, block_table: Tensor | None = None,
                num_splits: int | None = None
                ) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """Attention within each of several sequences that lie one behind the other.

    The kernels of scaled_dot_product_attention run on the sequences where they lie: nothing is
    padded or copied. Lengths on a GPU are kept with cu_seq_q and cu_seq_k, so that it is asked for
    them once and not in every layer (but for tensors made under inference_mode()).

    Arguments:
        query: (all queries, Hq, E).
        key: (all keys, H, E); with block_table (pages, page size, H, E).
        value: (all keys, H, Ev); with block_table (pages, page size, H, Ev).
        cu_seq_q: where sequences of queries begin, and the end: int32 or int64, one more than there
            are sequences.
        cu_seq_k: the same of the keys; None with block_table.
        max_q, max_k: lengths that no sequence exceeds.
        return_aux: AuxRequest(lse=True) returns the logarithms of sums, too: (Hq, all queries).
        scale: factor for the scores; None is 1 / sqrt(E).
        window_size: how many keys before and behind its own place a query sees, -1 for all: (-1, 0)
            is causal. The last query of a sequence stands at its last key.
        enable_gqa: neighbouring heads of query share a head of key and value.
        seqused_k: how many keys of each sequence are used; without gradients.
        block_table: (sequences, pages), which pages hold the keys of a sequence; without gradients.
        num_splits: accepted; changes nothing, as results do not depend on the other sequences.

    Returns:
        Tensor: (all queries, Hq, Ev); or a pair with the logarithms.

    Example:
        >>> from rushlight.nn.attention.varlen import varlen_attn
        >>> x = rl.eye(4)[:, None]  # sequences of three tokens and of one
        >>> ends = rl.tensor([0, 3, 4])
        >>> varlen_attn(x, x, x, ends, ends, 3, 3, window_size=(-1, 0))[:, 0]
        tensor([[1.0000, 0.0000, 0.0000, 0.0000],
                [0.3775, 0.6225, 0.0000, 0.0000],
                [0.2741, 0.2741, 0.4519, 0.0000],
                [0.0000, 0.0000, 0.0000, 1.0000]])
    """
    out, lse = _attend(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, scale, window_size,
                       enable_gqa, seqused_k, block_table)  # fmt: skip
    return (out, lse) if return_aux is not None and return_aux.lse else out


def varlen_attn_out(out: Tensor, query: Tensor, key: Tensor, value: Tensor, cu_seq_q: Tensor,
                    cu_seq_k: Tensor | None, max_q: int, max_k: int,
                    *, return_aux: AuxRequest | None = None, scale: float | None = None,
                    window_size: tuple[int, int] = (-1, -1), enable_gqa: bool = False,
                    seqused_k: Tensor | None = None, block_table: Tensor | None = None,
                    num_splits: int | None = None
                    ) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """varlen_attn whose result is written to `out`; without gradients.

    Example:
        >>> from rushlight.nn.attention.varlen import varlen_attn_out
        >>> x, ends = rl.ones(3, 1, 2), rl.tensor([0, 2, 3])
        >>> out = rl.empty(3, 1, 2)
        >>> varlen_attn_out(out, x, x, x, ends, ends, 2, 2) is out
        True
    """
    if _C.is_grad_enabled() and any(x.requires_grad for x in (out, query, key, value)):
        raise RuntimeError("varlen_attn_out: has no gradient; use varlen_attn, or no_grad()")
    found: Any = varlen_attn(
        query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, return_aux=AuxRequest(True),
        scale=scale, window_size=window_size, enable_gqa=enable_gqa, seqused_k=seqused_k,
        block_table=block_table, num_splits=num_splits,
    )  # fmt: skip
    if out.shape != found[0].shape or out.dtype != found[0].dtype:
        raise _C.ShapeError(
            f"varlen_attn_out: out must be {found[0].dtype} of shape {list(found[0].shape)}, got "
            f"{out.dtype} of shape {list(out.shape)}"
        )
    out.copy_(found[0])
    return (out, found[1]) if return_aux is not None and return_aux.lse else out
