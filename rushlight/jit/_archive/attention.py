"""The two operators that PyTorch calls for attention and encoder layers in eval mode; the compiler
reads these functions in their place."""

from __future__ import annotations

import math
from typing import Optional, Tuple  # noqa: UP035

from rushlight import _C
from rushlight._C import Tensor
from rushlight.nn import functional as F

# ruff: noqa: UP006, UP045

_FOR_POSITIONS, _FOR_KEYS = 0, 1  # what a mask's number says; otherwise it has four dims


def native_multi_head_attention(
    query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_heads: int, qkv_weight: Tensor,
    qkv_bias: Tensor, proj_weight: Tensor, proj_bias: Tensor, mask: Optional[Tensor] = None,
    need_weights: bool = True, average_attn_weights: bool = True, mask_type: Optional[int] = None,
) -> Tuple[Tensor, Tensor]:  # fmt: skip
    """Attention of batches that come first; where the mask is True, nobody looks."""
    batch, length, size = query.size(0), query.size(1), embed_dim // num_heads
    w, b = qkv_weight.chunk(3), qkv_bias.chunk(3)
    q = _C.linear(query, w[0], b[0]).view([batch, length, num_heads, size]).transpose(1, 2)
    k = _C.linear(key, w[1], b[1]).view([batch, key.size(1), num_heads, size]).transpose(1, 2)
    v = _C.linear(value, w[2], b[2]).view([batch, value.size(1), num_heads, size]).transpose(1, 2)
    scores = (q / math.sqrt(size)) @ k.transpose(-2, -1)
    if mask is not None:
        hidden = mask
        if mask_type is not None:
            if mask_type == _FOR_KEYS:
                hidden = mask.view([batch, 1, 1, key.size(1)])
        if hidden.dtype == _C.bool:
            scores = scores.masked_fill(hidden, float("-inf"))
        else:
            scores = scores + hidden
    weights = scores.softmax(-1)
    joined = (weights @ v).transpose(1, 2).reshape([batch, length, embed_dim])
    out = _C.linear(joined, proj_weight, proj_bias)
    if not need_weights:
        return out, out.new_empty([0])
    return out, weights.mean(1) if average_attn_weights else weights


def transformer_encoder_layer_fwd(
    src: Tensor, embed_dim: int, num_heads: int, qkv_weight: Tensor, qkv_bias: Tensor,
    proj_weight: Tensor, proj_bias: Tensor, use_gelu: bool, norm_first: bool, eps: float,
    norm_weight_1: Tensor, norm_bias_1: Tensor, norm_weight_2: Tensor, norm_bias_2: Tensor,
    ffn_weight_1: Tensor, ffn_bias_1: Tensor, ffn_weight_2: Tensor, ffn_bias_2: Tensor,
    mask: Optional[Tensor] = None, mask_type: Optional[int] = None,
) -> Tensor:  # fmt: skip
    """A layer of an encoder: attention and two maps, each added to what it was given."""
    first = F.layer_norm(src, [embed_dim], norm_weight_1, norm_bias_1, eps) if norm_first else src
    attended, _ = native_multi_head_attention(
        first, first, first, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias,
        mask, False, True, mask_type,
    )  # fmt: skip
    x = src + attended
    if not norm_first:
        x = F.layer_norm(x, [embed_dim], norm_weight_1, norm_bias_1, eps)
    y = F.layer_norm(x, [embed_dim], norm_weight_2, norm_bias_2, eps) if norm_first else x
    y = _C.linear(y, ffn_weight_1, ffn_bias_1)
    y = F.gelu(y) if use_gelu else F.relu(y)
    x = x + _C.linear(y, ffn_weight_2, ffn_bias_2)
    if not norm_first:
        x = F.layer_norm(x, [embed_dim], norm_weight_2, norm_bias_2, eps)
    return x
