"""Modules over nested tensors: multi-head attention, and encoders whose padding is left out."""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.nested import nested_tensor_from_jagged
from rushlight.nn import functional as F


def multihead_attention(module: Any, query: Any, key: Any, value: Any, key_padding_mask: Any,
                        need_weights: bool, attn_mask: Any, is_causal: bool) -> Any:  # fmt: skip
    """nn.MultiheadAttention of nested tensors (batch, ragged, features)."""
    for wrong, text in (
        (key_padding_mask is not None, "no key_padding_mask: there is no padding"),
        (attn_mask is not None and not is_causal, "no attn_mask but the causal one"),
        (need_weights, "need_weights=False: weights of different sizes are not returned"),
        (not module.batch_first, "batch_first=True"),
        (
            module.bias_k is not None or module.add_zero_attn,
            "no add_bias_kv or add_zero_attn",
        ),
    ):
        if wrong:
            raise NotImplementedError(f"MultiheadAttention: nested tensors take {text}")
    if module._qkv_same_embed_dim:
        weights = module.in_proj_weight.chunk(3)
    else:
        weights = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
    biases = (None,) * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
    if query is key and key is value and module._qkv_same_embed_dim:
        parts = F.linear(query, module.in_proj_weight, module.in_proj_bias).chunk(3, -1)
    else:
        parts = [F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases,
                                                      strict=True)]  # fmt: skip
    q, k, v = (x.unflatten(-1, (module.num_heads, -1)).transpose(1, 2) for x in parts)
    dropout = module.dropout if module.training else 0.0
    out = F.scaled_dot_product_attention(q, k, v, None, dropout, is_causal)
    return F.linear(out.transpose(1, 2).flatten(2), module.out_proj.weight, module.out_proj.bias)


def without_padding(src: Tensor, padding: Tensor) -> Tensor | None:
    """(batch, length, features) as a nested tensor of what is no padding; None where that saves
    little, or padding is not at the end."""
    if padding.dtype is not _C.bool or padding.shape != src.shape[:2]:
        return None
    if int(padding.sum()) * 8 < padding.numel() or bool((padding[:, :-1] & ~padding[:, 1:]).any()):
        return None
    seen = ~padding
    return nested_tensor_from_jagged(src[seen], lengths=seen.sum(1))
