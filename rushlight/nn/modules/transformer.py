"""Transformers: encoder and decoder layers, stacks of them, and both together."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight._scripting import is_scripting
from rushlight.nn import functional as F
from rushlight.nn.init import xavier_uniform_
from rushlight.nn.modules._hooks import has_hooks
from rushlight.nn.modules.attention import MultiheadAttention
from rushlight.nn.modules.container import ModuleList
from rushlight.nn.modules.dropout import Dropout
from rushlight.nn.modules.linear import Linear
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.normalization import LayerNorm
from rushlight.types import Device, _dtype

__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
]  # fmt: skip


def _generate_square_subsequent_mask(sz, device=None, dtype=None):
    """-inf above the diagonal, 0 elsewhere: a position sees itself and those before it."""
    return _C.full((sz, sz), float("-inf"), dtype=dtype, device=device).triu_(1)


def _is_causal(mask, hint, length):
    """Whether the mask is the causal one: by the hint, else by looking at it."""
    if hint is not None or mask is None:
        return bool(hint)
    if tuple(mask.shape) != (length, length) or mask.device.type == "meta":
        return False
    expected = _generate_square_subsequent_mask(length, mask.device, mask.dtype)
    return bool((mask == expected).all())


def _length(x, batch_first):
    """The number of positions of a batch, or of one sequence."""
    return x.shape[1 if batch_first and x.dim() == 3 else 0]


def _activation(activation):
    """The function of a name; functions and modules are taken as they are."""
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(
            f"transformer: activation must be 'relu', 'gelu' or a function, got {activation!r}"
        )
    return getattr(F, activation)


_get_activation_fn = _activation  # PyTorch's name, which programs import


def _clones(module, count):
    if not isinstance(module, Module):
        raise TypeError(f"transformer: expected a layer to copy, got {type(module).__name__}")
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


class _Layer(Module):
    """What the layers of encoders and decoders share: one or two attentions and two linear maps,
    each followed by its own dropout and norm, which are numbered in this order."""

    __constants__: tuple[str, ...] = ("norm_first",)
    _attentions: tuple[str, ...] = ("self_attn",)

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
                 activation: str | Callable[[Tensor], Tensor] = F.relu,
                 layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False,
                 bias: bool = True, device: Device = None,
                 dtype: _dtype | None = None) -> None:  # fmt: skip
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        super().__init__()
        for name in self._attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **made
            )
            setattr(self, name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **made)
        self.norm_first = norm_first
        numbers = range(1, len(self._attentions) + 2)
        for i in numbers:
            setattr(self, f"norm{i}", LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made))
        for i in numbers:
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = _activation(activation)

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        if not hasattr(self, "activation"):  # saved when relu was the only one
            self.activation = F.relu

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
        x = _attended(self.self_attn, x, x, attn_mask, key_padding_mask, is_causal)
        return self.dropout1(x)

    def _ff_block(self, x):
        x = self.linear2(self.dropout(self._first_half(x)))
        last = self.dropout2 if len(self._attentions) == 1 else self.dropout3
        return last(x)

    def _first_half(self, x):
        first = self.linear1
        if x.is_cuda and self.activation is F.relu and type(first) is Linear:
            # In one launch, where nothing hangs on the layer and nothing is recorded.
            if not (_C.is_grad_enabled() or has_hooks(first)):
                return _C._linear_relu(x, first.weight, first.bias)
        return self.activation(first(x))


def _attended(attention, x, memory, attn_mask, key_padding_mask, is_causal):
    return attention(
        x,
        memory,
        memory,
        attn_mask=attn_mask,
        key_padding_mask=key_padding_mask,
        need_weights=False,
        is_causal=is_causal,
    )[0]


def _length_for(layers, x):
    """The length of the sequences that layers get."""
    attention = getattr(layers[0], "self_attn", None) if len(layers) else None
    return _length(x, getattr(attention, "batch_first", False))


class TransformerEncoderLayer(_Layer):
    """Self-attention, then two linear maps, each with dropout, a residual and a norm.

    Arguments:
        d_model: features.
        nhead: how many heads of attention.
        dim_feedforward: features between the two linear layers.
        dropout: probability of dropping an element.
        activation: 'relu', 'gelu' or a function.
        layer_norm_eps: eps of the norms.
        batch_first: (N, L, E) instead of (L, N, E).
        norm_first: normalise before attention and feed-forward, not after, which trains more
            easily.
        bias: whether linear layers and norms have one.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True)
        >>> layer(rl.zeros(3, 5, 8)).shape
        rushlight.Size([3, 5, 8])
    """

    def forward(self, src: Tensor, src_mask: Tensor | None = None,
                src_key_padding_mask: Tensor | None = None,
                is_causal: bool = False) -> Tensor:  # fmt: skip
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self._ff_block(x))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the memory, two linear maps; as TransformerEncoderLayer.

    Arguments:
        d_model: features.
        nhead: how many heads of attention.
        dim_feedforward: features between the two linear layers.
        dropout: probability of dropping an element.
        activation: 'relu', 'gelu' or a function.
        layer_norm_eps: eps of the norms.
        batch_first: (N, L, E) instead of (L, N, E).
        norm_first: normalise before attention and feed-forward, not after.
        bias: whether linear layers and norms have one.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> layer = nn.TransformerDecoderLayer(8, 2, dim_feedforward=16, batch_first=True)
        >>> target, memory = rl.zeros(3, 4, 8), rl.zeros(3, 6, 8)
        >>> layer(target, memory).shape
        rushlight.Size([3, 4, 8])
    """

    _attentions = ("self_attn", "multihead_attn")

    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None,
                memory_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
                memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool = False,
                memory_is_causal: bool = False) -> Tensor:  # fmt: skip
        x = tgt
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *own)
            x = x + self._mha_block(self.norm2(x), *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *own))
        x = self.norm2(x + self._mha_block(x, *other))
        return self.norm3(x + self._ff_block(x))

    def _mha_block(self, x, mem, attn_mask, key_padding_mask, is_causal=False):
        x = _attended(self.multihead_attn, x, mem, attn_mask, key_padding_mask, is_causal)
        return self.dropout2(x)


class TransformerEncoder(Module):
    """Copies of one encoder layer in a row.

    In evaluation without gradients, on the CPU, what src_key_padding_mask calls padding is left out
    of the work where it is an eighth of the batch or more, and comes out as zeros (as in PyTorch).

    Arguments:
        encoder_layer: the layer that is copied.
        num_layers: how often.
        norm: a last normalisation, or None.
        enable_nested_tensor: whether padding may be left out.
        mask_check: accepted; masks are always looked at.

    Example:
        >>> layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True)
        >>> nn.TransformerEncoder(layer, num_layers=2, norm=nn.LayerNorm(8))(rl.zeros(3, 5,
        ...     8)).shape
        rushlight.Size([3, 5, 8])
    """

    __constants__: tuple[str, ...] = ("norm",)

    def __init__(self, encoder_layer: TransformerEncoderLayer, num_layers: int,
                 norm: Module | None = None, enable_nested_tensor: bool = True,
                 mask_check: bool = True) -> None:  # fmt: skip
        super().__init__()
        self.layers = _clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = False
        self.mask_check = mask_check

    def forward(self, src: Tensor, mask: Tensor | None = None,
                src_key_padding_mask: Tensor | None = None,
                is_causal: bool | None = None) -> Tensor:  # fmt: skip
        if not is_scripting():
            found = self._nested(src, mask, src_key_padding_mask, is_causal)
            if found is not None:
                return found if self.norm is None else self.norm(found)
        is_causal = _is_causal(mask, is_causal, _length_for(self.layers, src))
        for layer in self.layers:
            src = layer(
                src,
                src_mask=mask,
                is_causal=is_causal,
                src_key_padding_mask=src_key_padding_mask,
            )
        return src if self.norm is None else self.norm(src)

    def _nested(self, src, mask, padding, is_causal):
        """What the layers make of a nested tensor, or of a batch without its padding; else None."""
        nested = src if src.is_nested else None
        if nested is None and mask is None and padding is not None and self._may_leave_out(src):
            from rushlight.nested._modules import without_padding

            nested = without_padding(src, padding)
        if nested is None:
            return None
        out, left = nested, padding if nested is src else None
        for layer in self.layers:
            out = layer(out, mask, left, bool(is_causal))
        return out if nested is src else out.to_padded_tensor(0.0, src.shape)

    def _may_leave_out(self, src):
        """May padding be taken out of the batch before the layers?"""
        if not self.enable_nested_tensor or self.training or _C.is_grad_enabled():
            return False
        if _C._jit_is_tracing() or _C._frozen_is_recording():  # which padding is there may change
            return False
        return src.dim() == 3 and src.device.type == "cpu" and all(
            type(layer) is TransformerEncoderLayer and layer.self_attn.batch_first
            and not layer.training and not has_hooks(layer)
            for layer in self.layers
        )  # fmt: skip


class TransformerDecoder(Module):
    """Copies of one decoder layer in a row.

    Arguments:
        decoder_layer: the layer that is copied.
        num_layers: how often.
        norm: a last normalisation, or None.

    Example:
        >>> layer = nn.TransformerDecoderLayer(8, 2, dim_feedforward=16, batch_first=True)
        >>> decoder = nn.TransformerDecoder(layer, num_layers=2, norm=nn.LayerNorm(8))
        >>> decoder(rl.zeros(3, 4, 8), rl.zeros(3, 6, 8)).shape
        rushlight.Size([3, 4, 8])
    """

    __constants__: tuple[str, ...] = ("norm",)

    def __init__(
        self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None
    ) -> None:
        super().__init__()
        self.layers = _clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None,
                memory_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
                memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool | None = None,
                memory_is_causal: bool = False) -> Tensor:  # fmt: skip
        tgt_is_causal = _is_causal(tgt_mask, tgt_is_causal, _length_for(self.layers, tgt))
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=tgt_is_causal,
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder and a decoder, as in "Attention is all you need".

    Arguments:
        d_model: features.
        nhead: how many heads of attention.
        num_encoder_layers, num_decoder_layers: how many layers.
        dim_feedforward: features between the two linear layers.
        dropout: probability of dropping an element.
        activation: 'relu', 'gelu' or a function.
        custom_encoder, custom_decoder: modules to use instead.
        layer_norm_eps: eps of the norms.
        batch_first: (N, L, E) instead of (L, N, E).
        norm_first: normalise before attention and feed-forward, not after.
        bias: whether linear layers and norms have one.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> net = nn.Transformer(8, 2, 1, 1, dim_feedforward=16, batch_first=True)
        >>> mask = nn.Transformer.generate_square_subsequent_mask(4)
        >>> net(rl.zeros(3, 6, 8), rl.zeros(3, 4, 8), tgt_mask=mask).shape
        rushlight.Size([3, 4, 8])
    """

    def __init__(self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6,
                 num_decoder_layers: int = 6, dim_feedforward: int = 2048, dropout: float = 0.1,
                 activation: str | Callable[[Tensor], Tensor] = F.relu,
                 custom_encoder: Any | None = None, custom_decoder: Any | None = None,
                 layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False,
                 bias: bool = True, device: Device = None,
                 dtype: _dtype | None = None) -> None:  # fmt: skip
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        super().__init__()
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        layer += (batch_first, norm_first, bias)
        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            encoder_layer = TransformerEncoderLayer(*layer, **made)
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made)
            self.encoder = TransformerEncoder(encoder_layer, num_encoder_layers, norm)
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            decoder_layer = TransformerDecoderLayer(*layer, **made)
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made)
            self.decoder = TransformerDecoder(decoder_layer, num_decoder_layers, norm)
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None,
                tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
                src_key_padding_mask: Tensor | None = None,
                tgt_key_padding_mask: Tensor | None = None,
                memory_key_padding_mask: Tensor | None = None, src_is_causal: bool | None = None,
                tgt_is_causal: bool | None = None,
                memory_is_causal: bool = False) -> Tensor:  # fmt: skip
        if src.dim() == 3:
            at = 0 if self.batch_first else 1
            if src.shape[at] != tgt.shape[at]:
                raise RuntimeError(
                    "Transformer: src and tgt must have the same batch size, got shapes "
                    f"{list(src.shape)} and {list(tgt.shape)}"
                )
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError(
                f"Transformer: src and tgt must have d_model={self.d_model} features, got shapes "
                f"{list(src.shape)} and {list(tgt.shape)}"
            )
        memory = self.encoder(
            src,
            mask=src_mask,
            src_key_padding_mask=src_key_padding_mask,
            is_causal=src_is_causal,
        )
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: Device = None, dtype: _dtype | None = None
    ) -> Tensor:
        """A causal mask for sequences of length sz: -inf above the diagonal, 0 elsewhere."""
        return _generate_square_subsequent_mask(sz, device, dtype)

    def _reset_parameters(self):
        for parameter in self.parameters():
            if parameter.dim() > 1:
                xavier_uniform_(parameter)
