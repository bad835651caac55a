"""Attention whose scores go through functions of the user's, strip by strip of the scores."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, overload

from rushlight import _C
from rushlight._C import Tensor
from rushlight._core._functorch import is_batchedtensor
from rushlight.autograd.forward_ad import unpack_dual
from rushlight.nn.attention import _strips
from rushlight.nn.attention._block_mask import (
    BLOCK,
    BlockMask,
    _of_a_slice,
    and_masks,
    create_block_mask,
    create_mask,
    dense,
    noop_mask,
    or_masks,
)
from rushlight.nn.attention._mods import over_places

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "FlexKernelOptions", "and_masks", "create_block_mask",
    "create_mask", "flex_attention", "noop_mask", "or_masks",
]  # fmt: skip

_DEFAULT_SPARSE_BLOCK_SIZE = BLOCK  # PyTorch's name, which programs import
FlexKernelOptions = dict
_Score = Callable[..., Tensor]


class AuxRequest(NamedTuple):
    """What flex_attention shall return besides its output."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What it was asked for; None for the rest."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def _check_heads(query, key, value, enable_gqa):
    if query.is_nested or key.is_nested or value.is_nested:
        raise NotImplementedError(
            "flex_attention: nested tensors are not taken; use to_padded_tensor() and a block_mask"
        )
    if not query.device == key.device == value.device:
        raise ValueError(
            "flex_attention: query, key and value must be on one device, got "
            f"{query.device}, {key.device} and {value.device}"
        )
    if not query.dim() == key.dim() == value.dim() == 4:
        raise ValueError(
            "flex_attention: query, key and value must be (batch, heads, length, size), got shapes "
            f"{list(query.shape)}, {list(key.shape)} and {list(value.shape)}"
        )
    if query.dtype != key.dtype or query.dtype != value.dtype:
        raise ValueError(
            "flex_attention: query, key and value must have the same dtype, got "
            f"{query.dtype}, {key.dtype} and {value.dtype}"
        )
    if not query.is_floating_point():
        raise _C.DTypeError(f"flex_attention: not implemented for {query.dtype} tensors")
    if query.shape[3] != key.shape[3]:
        raise ValueError(
            f"flex_attention: query and key must have the same size in their last dim, got shapes "
            f"{list(query.shape)} and {list(key.shape)}"
        )
    if key.shape[:3] != value.shape[:3]:
        raise ValueError(
            "flex_attention: key and value must have the same batch, heads and length, got shapes "
            f"{list(key.shape)} and {list(value.shape)}"
        )
    heads, key_heads = query.shape[1], key.shape[1]
    if heads != key_heads and not enable_gqa:
        raise ValueError(
            f"flex_attention: query has {heads} heads, key {key_heads}; pass enable_gqa=True"
        )
    if heads % max(key_heads, 1):
        raise ValueError(
            f"flex_attention: the heads of key ({key_heads}) must divide those of query ({heads})"
        )
    if query.shape[0] != key.shape[0] and key.shape[0] != 1:
        raise ValueError(
            f"flex_attention: query has {query.shape[0]} batches, key {key.shape[0]}; key may "
            "have as many, or one for all"
        )


def _check_block_mask(block_mask, query, key):
    if block_mask.mask_mod is _of_a_slice:
        raise RuntimeError(
            "flex_attention: block_mask is a slice of another one; set its mask_mod first"
        )
    if block_mask.kv_indices.dim() != 4:
        raise ValueError(
            "flex_attention: block_mask must have lists for (batch, heads, query blocks), got "
            f"shape {list(block_mask.kv_num_blocks.shape)}"
        )
    lengths = (query.shape[-2], key.shape[-2])
    for made, given, name in zip(block_mask.seq_lengths, lengths, ("Q_LEN", "KV_LEN"), strict=True):
        if made != given:
            raise ValueError(
                f"flex_attention: block_mask was made for {name}={made}, the inputs have {given}; "
                "make another one" + (", or crop it by _adjust()" if made > given else "")
            )
    for at, name in enumerate(("batch", "heads")):
        made = block_mask.shape[at]
        if made not in (1, query.shape[at]):
            raise ValueError(
                f"flex_attention: block_mask has {made} {name}, query of shape "
                f"{list(query.shape)} has {query.shape[at]}"
            )
    if block_mask.kv_num_blocks.device != query.device:
        raise RuntimeError(
            f"flex_attention: query is on {query.device}, block_mask on "
            f"{block_mask.kv_num_blocks.device}"
        )


@overload
def flex_attention(query: Tensor, key: Tensor, value: Tensor, score_mod: _Score | None = None,
                   block_mask: BlockMask | None = None, scale: float | None = None,
                   enable_gqa: bool = False, return_lse: Literal[False] = False,
                   kernel_options: Any = None,
                   *, return_aux: None = None) -> Tensor: ...  # fmt: skip
@overload
def flex_attention(query: Tensor, key: Tensor, value: Tensor, score_mod: _Score | None = None,
                   block_mask: BlockMask | None = None, scale: float | None = None,
                   enable_gqa: bool = False, *, return_lse: Literal[True],
                   kernel_options: Any = None,
                   return_aux: None = None) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def flex_attention(query: Tensor, key: Tensor, value: Tensor, score_mod: _Score | None = None,
                   block_mask: BlockMask | None = None, scale: float | None = None,
                   enable_gqa: bool = False, return_lse: bool = False, kernel_options: Any = None,
                   *, return_aux: AuxRequest) -> tuple[Tensor, AuxOutput]: ...  # fmt: skip
def flex_attention(query: Tensor, key: Tensor, value: Tensor, score_mod: _Score | None = None,
                   block_mask: BlockMask | None = None, scale: float | None = None,
                   enable_gqa: bool = False, return_lse: bool = False, kernel_options: Any = None,
                   *, return_aux: AuxRequest | None = None
                   ) -> Tensor | tuple[Tensor, Tensor | AuxOutput]:  # fmt: skip
    """softmax(score_mod(query @ key.T * scale)) @ value, where block_mask lets a query look.

    Scores are computed in strips of some queries, and only against blocks of keys that block_mask
    lists; nothing of the size queries x keys is kept, forward or backward. Gradients flow to the
    tensors that score_mod uses, too.

    Arguments:
        query: (B, Hq, L, E).
        key: (B, H, S, E); one batch may serve all.
        value: (B, H, S, Ev).
        score_mod: function (score, b, h, q_idx, kv_idx) -> score, written for one score. Made of
            pointwise ops and look-ups such as `bias[h, q_idx]` it runs for a strip at once; else
            under vmap.
        block_mask: of create_block_mask.
        scale: factor for the scores; None is 1 / sqrt(E).
        enable_gqa: neighbouring heads of query share a head of key and value.
        return_lse: also return the logarithm of each query's sum of exponentials.
        kernel_options: accepted; changes nothing.
        return_aux: AuxRequest of what to return besides.

    Returns:
        Tensor: (B, Hq, L, Ev); with return_lse or return_aux a pair.

    Example:
        >>> from rushlight.nn.attention.flex_attention import create_block_mask, flex_attention
        >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 3, 3)
        >>> q = k = v = rl.eye(3)[None, None]
        >>> flex_attention(q, k, v, lambda s, b, h, q_idx, kv_idx: s - kv_idx, block_mask=mask)
        tensor([[[[1.0000, 0.0000, 0.0000],
                  [0.6041, 0.3959, 0.0000],
                  [0.6215, 0.2286, 0.1498]]]])
    """
    _check_heads(query, key, value, enable_gqa)
    if return_lse and return_aux is not None:
        raise ValueError("flex_attention: return_lse and return_aux say the same; give one of them")
    if block_mask is not None:
        _check_block_mask(block_mask, query, key)
    scale = 1 / math.sqrt(max(query.shape[-1], 1)) if scale is None else scale
    aux = return_lse or return_aux is not None
    if score_mod is None and block_mask is None and not aux:
        return _C.scaled_dot_product_attention(
            query, key, value, scale=scale, enable_gqa=enable_gqa
        )
    if key.shape[0] != query.shape[0]:
        key, value = (x.expand(query.shape[0], -1, -1, -1) for x in (key, value))
    out, lse, top = _run(query, key, value, score_mod, block_mask, scale, aux)
    if not aux:
        return out
    if return_aux is None:
        return out, lse
    return out, AuxOutput(lse if return_aux.lse else None, top if return_aux.max_scores else None)


def _run(query, key, value, score_mod, block_mask, scale, aux):
    """Output, sums and largest scores, the last two if asked for."""
    if query.is_meta:
        raise ValueError("flex_attention: score_mod and block_mask do not run on the device meta")
    given = query.dtype
    narrow = given not in (_C.float32, _C.float64)
    if narrow and not query.is_cuda:  # the CPU's products are of floats anyway
        query, key, value = query.float(), key.float(), value.float()

    def whole(query, key, value):
        return _whole(query, key, value, score_mod, block_mask, scale)

    tensors = (query, key, value)
    if 0 in (*query.shape, *key.shape) or any(
        is_batchedtensor(t) or unpack_dual(t).tangent is not None for t in tensors
    ):
        out, lse, top = whole(*tensors)
    else:
        like = _C.empty(0, dtype=_C.float32 if narrow else given, device=query.device)
        plan = _strips.Plan(query, key, score_mod, block_mask, scale, like)
        if _C.is_grad_enabled() and any(t.requires_grad for t in (*tensors, *plan.captured)):

            def again(*tensors):
                return whole(*tensors)[:2]

            found = _strips.FlexAttention.apply(plan, aux, again, *tensors, *plan.captured)
        else:
            found = _strips.forward(plan, *tensors, aux)
        out, lse, top = found if isinstance(found, tuple) else (found, None, None)
    return out.to(given), lse, top


def _whole(query, key, value, score_mod, block_mask, scale):
    """The same with all scores at once, as ops that record themselves: for derivatives of
    derivatives, tangents and samples of vmap."""
    batch, heads, queries, _ = query.shape
    keys = key.shape[2]
    if key.shape[1] != heads:
        key, value = (x.repeat_interleave(heads // key.shape[1], 1) for x in (key, value))
    scores = (query * scale) @ key.transpose(-1, -2)
    if scores.dtype not in (_C.float32, _C.float64):
        scores = scores.float()
    places = tuple(_C.arange(n, device=query.device) for n in (batch, heads, queries, keys))
    if score_mod is not None:
        scores = over_places(score_mod, places, scores)
    if block_mask is not None:
        seen = over_places(block_mask.mask_mod, places)
        seen = seen & _elements(block_mask, block_mask.kv_num_blocks, block_mask.kv_indices)
        if block_mask.full_kv_num_blocks is not None:
            full = block_mask.full_kv_num_blocks, block_mask.full_kv_indices
            seen = seen | _elements(block_mask, *full)
        scores = scores.masked_fill(~seen, float("-inf"))
    blind = scores.isneginf().all(-1, keepdim=True)
    weights = scores.masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0)
    lse = scores.masked_fill(blind, 0.0).logsumexp(-1).masked_fill(blind.squeeze(-1), float("-inf"))
    top = scores.amax(-1) if keys else lse
    return weights.to(value.dtype) @ value, lse, top


def _elements(block_mask, count, indices):
    """The elements of blocks that are listed."""
    blocks = dense(count, indices)
    for dim, size, length in zip((-2, -1), block_mask.BLOCK_SIZE, block_mask.seq_lengths,
                                 strict=True):  # fmt: skip
        blocks = blocks.repeat_interleave(size, dim).narrow(dim, 0, length)
    return blocks
