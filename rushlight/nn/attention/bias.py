"""Causal masks for scaled_dot_product_attention that need no memory."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable
from typing import Any

from rushlight import _C
from rushlight.types import Self

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(enum.IntEnum):
    """Which corner of the scores the diagonal starts from."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(_C.Tensor):
    """A causal mask; pass it as attn_mask. Anything else sees it as the bool mask it stands for."""

    def __new__(cls, variant: Any, seq_len_q: Any, seq_len_kv: Any) -> Self:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"CausalBias: expects a CausalVariant, got {variant!r}")
        shape = _C.ones((), dtype=_C.bool).expand(seq_len_q, seq_len_kv)
        return _C.Tensor._make_subclass(cls, shape)

    def __init__(self, variant: Any, seq_len_q: int, seq_len_kv: int) -> None:
        self.variant = variant
        self.seq_len_q = seq_len_q
        self.seq_len_kv = seq_len_kv
        if seq_len_q > seq_len_kv and variant == CausalVariant.LOWER_RIGHT:
            warnings.warn(
                f"CausalBias: with {seq_len_q} queries and {seq_len_kv} keys the first queries "
                "see no key at all; their results are zero",
                stacklevel=3,
            )

    def _materialize(self, device=None):
        """The mask as a bool tensor."""
        shift = 0
        if self.variant == CausalVariant.LOWER_RIGHT:
            shift = self.seq_len_kv - self.seq_len_q
        shape = (self.seq_len_q, self.seq_len_kv)
        return _C.ones(shape, dtype=_C.bool, device=device).tril_(shift)

    @staticmethod
    def _dispatch(
        query,
        key,
        value,
        attn_mask,
        dropout_p=0.0,
        is_causal=False,
        scale=None,
        enable_gqa=False,
    ):
        if is_causal:
            raise ValueError("CausalBias: is_causal=True says it again; leave it out")
        lengths = (query.shape[-2], key.shape[-2])
        if lengths != (attn_mask.seq_len_q, attn_mask.seq_len_kv):
            raise _C.ShapeError(
                f"CausalBias: made for {attn_mask.seq_len_q} queries and {attn_mask.seq_len_kv} "
                f"keys, got {lengths[0]} and {lengths[1]}"
            )
        # Both corners are the same one for as many keys as queries.
        plain = attn_mask.variant == CausalVariant.UPPER_LEFT or lengths[0] == lengths[1]
        mask = None if plain else attn_mask._materialize(query.device)
        return _C.scaled_dot_product_attention(
            query, key, value, mask, dropout_p, plain, scale=scale, enable_gqa=enable_gqa
        )

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func is _C.scaled_dot_product_attention:
            return cls._dispatch(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs)

    def __repr__(self) -> str:
        return repr(self._materialize())


def causal_upper_left(*size: int) -> CausalBias:
    """Query i sees the keys 0 to i, counted from the start: scores of shape `size`."""
    if len(size) != 2:
        raise AssertionError(f"causal_upper_left: expects two lengths, got {size}")
    return CausalBias(CausalVariant.UPPER_LEFT, *size)


def causal_lower_right(*size: int) -> CausalBias:
    """The last query sees all keys, the one before all but the last one, and so on."""
    if len(size) != 2:
        raise AssertionError(f"causal_lower_right: expects two lengths, got {size}")
    return CausalBias(CausalVariant.LOWER_RIGHT, *size)
