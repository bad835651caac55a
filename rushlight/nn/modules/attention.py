"""Attention of several heads."""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight._scripting import is_scripting
from rushlight.nn import init
from rushlight.nn.functional.attention import _as_float, _attention
from rushlight.nn.modules.linear import NonDynamicallyQuantizableLinear
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.types import Device, _dtype

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Attention of several heads, each over a part of the features, with learned projections.

    forward(query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
    average_attn_weights=True, is_causal=False) returns the output and the weights (None with
    need_weights=False, which is faster). In bool masks True means: do not look there.

    Arguments:
        embed_dim: features of the query and of the output.
        num_heads: how many heads; it divides embed_dim.
        dropout: probability of dropping a weight while training.
        bias: whether projections have one.
        add_bias_kv: a learned key and value that every query sees.
        add_zero_attn: a key and value of zeros that every query sees.
        kdim, vdim: features of keys and values; None is embed_dim.
        batch_first: (N, L, E) instead of (L, N, E).
        device, dtype: where the parameters lie, and their dtype.

    Shape: query (L, N, E), key and value (S, N, E) to (L, N, E) and weights (N, L, S).

    Example:
        >>> attention = nn.MultiheadAttention(8, 2, batch_first=True)
        >>> x = rl.zeros(3, 5, 8)
        >>> out, weights = attention(x, x, x)
        >>> out.shape, weights.shape
        (rushlight.Size([3, 5, 8]), rushlight.Size([3, 5, 5]))
    """

    # Where PyTorch has it, and files that hold whole models look for it.
    __module__ = "rushlight.nn.modules.activation"
    __constants__: tuple[str, ...] = ("batch_first",)

    def __init__(self, embed_dim: Any, num_heads: Any, dropout: float = 0.0, bias: bool = True,
                 add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: Any = None,
                 vdim: Any = None, batch_first: bool = False, device: Device = None,
                 dtype: _dtype | None = None) -> None:  # fmt: skip
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "MultiheadAttention: embed_dim and num_heads must be positive, got "
                f"embed_dim={embed_dim} and num_heads={num_heads}"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError(
                f"MultiheadAttention: embed_dim {embed_dim} must be divisible by num_heads "
                f"{num_heads}"
            )

        def fresh(*size):
            return Parameter(_C.empty(size, device=device, dtype=dtype))

        if self._qkv_same_embed_dim:
            self.in_proj_weight = fresh(3 * embed_dim, embed_dim)
            for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
                self.register_parameter(name, None)
        else:
            self.q_proj_weight = fresh(embed_dim, embed_dim)
            self.k_proj_weight = fresh(embed_dim, self.kdim)
            self.v_proj_weight = fresh(embed_dim, self.vdim)
            self.register_parameter("in_proj_weight", None)
        if bias:
            self.in_proj_bias = fresh(3 * embed_dim)
        else:
            self.register_parameter("in_proj_bias", None)
        self.out_proj = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, device=device, dtype=dtype
        )
        if add_bias_kv:
            self.bias_k, self.bias_v = fresh(1, 1, embed_dim), fresh(1, 1, embed_dim)
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self):
        if self._qkv_same_embed_dim:
            init.xavier_uniform_(self.in_proj_weight)
        else:
            init.xavier_uniform_(self.q_proj_weight)
            init.xavier_uniform_(self.k_proj_weight)
            init.xavier_uniform_(self.v_proj_weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        if self.bias_k is not None:
            init.xavier_normal_(self.bias_k)
        if self.bias_v is not None:
            init.xavier_normal_(self.bias_v)

    def __setstate__(self, state: Any) -> None:
        # Saved by versions that knew one kind of weights only.
        super().__setstate__({"_qkv_same_embed_dim": True} | state)

    def forward(self, query: Tensor, key: Tensor, value: Tensor,
                key_padding_mask: Tensor | None = None, need_weights: bool = True,
                attn_mask: Tensor | None = None, average_attn_weights: bool = True,
                is_causal: bool = False) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        if not is_scripting() and query.is_nested:
            from rushlight.nested._modules import multihead_attention

            found = multihead_attention(
                self, query, key, value, key_padding_mask, need_weights, attn_mask, is_causal
            )
            return found, None
        separate = None
        if not self._qkv_same_embed_dim:
            separate = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        return _attention(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout if self.training else 0.0,
            self.out_proj.weight,
            self.out_proj.bias,
            key_padding_mask,
            need_weights,
            attn_mask,
            separate,
            None,
            None,
            average_attn_weights,
            is_causal,
            self.batch_first,
        )

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Both masks as one (batch, heads, queries, keys), and its kind: 0, 1 (padding) or 2.

        Kept for programs that call it; forward does not need it.
        """
        mask, kind = None, None
        if key_padding_mask is not None:
            mask, kind = key_padding_mask, 1
        if attn_mask is not None:
            batch, length = query.shape[:2]
            kind = 2
            if attn_mask.dim() == 3:
                mask = attn_mask.view(batch, -1, length, length)
            else:
                mask = attn_mask.view(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
            if key_padding_mask is not None:
                padding = key_padding_mask.view(batch, 1, 1, length).expand(
                    -1, self.num_heads, -1, -1
                )
                mask = _as_float(mask, query.dtype) + _as_float(padding, query.dtype)
        return mask, kind
