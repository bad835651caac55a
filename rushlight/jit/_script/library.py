"""Functions and methods of rushlight as the compiler reads them, where their own source is written
for speed in Python or takes what programs have not. Each does what the original does."""

from __future__ import annotations

import math
from typing import List, Optional, Tuple  # noqa: UP035

from rushlight import _C, nn
from rushlight._C import Tensor
from rushlight.nn import functional as F
from rushlight.nn.functional import attention, vision
from rushlight.nn.modules import transformer

# ruff: noqa: UP006, UP045


def _linear(self, input: Tensor):
    return F.linear(input, self.weight, self.bias)


# Recurrent layers ---------------------------------------------------------------------------------


def _check_input(self, input):
    if input.dim() not in (2, 3):
        raise _C.ShapeError(
            f"{type(self).__name__}: the input must have 3 dimensions, or 2 without a batch, "
            "got shape "
            f"{list(input.shape)}"
        )


def _check_features(self, input):
    if input.size(-1) != self.input_size:
        raise _C.ShapeError(
            f"{type(self).__name__}: the last dim of the input must be "
            f"input_size={self.input_size}, got shape "
            f"{list(input.shape)}"
        )


def _check_state(self, name, state, input, size):
    directions = 2 if self.bidirectional else 1
    expected = [self.num_layers * directions, input.size(0 if self.batch_first else 1), size]
    if list(state.shape) != expected:
        raise _C.ShapeError(
            f"{type(self).__name__}: the initial {name} must have shape {expected}, got "
            f"{list(state.shape)}"
        )


def _one_state(self, function, input, hx):
    _check_input(self, input)
    single = input.dim() == 2
    if single:
        input = input.unsqueeze(0 if self.batch_first else 1)
    _check_features(self, input)
    if hx is not None:
        if single:
            hx = hx.unsqueeze(1)
        _check_state(self, "state", hx, input, self.hidden_size)
    output, h = function(
        input,
        hx,
        self._flat_weights,
        self.bias,
        self.num_layers,
        self.dropout,
        self.training,
        self.bidirectional,
        self.batch_first,
    )
    if single:
        output, h = output.squeeze(0 if self.batch_first else 1), h.squeeze(1)
    return output, h


def _rnn(self, input: Tensor, hx: Optional[Tensor] = None):
    return _one_state(self, _C.rnn_tanh if self.mode == "RNN_TANH" else _C.rnn_relu, input, hx)


def _gru(self, input: Tensor, hx: Optional[Tensor] = None):
    return _one_state(self, _C.gru, input, hx)


def _lstm(self, input: Tensor, hx: Optional[Tuple[Tensor, Tensor]] = None):
    _check_input(self, input)
    single = input.dim() == 2
    if single:
        input = input.unsqueeze(0 if self.batch_first else 1)
    _check_features(self, input)
    states: List[Tensor] = []
    if hx is not None:
        h0, c0 = hx[0], hx[1]
        if single:
            h0, c0 = h0.unsqueeze(1), c0.unsqueeze(1)
        _check_state(self, "h", h0, input, self.proj_size or self.hidden_size)
        _check_state(self, "c", c0, input, self.hidden_size)
        states.append(h0)
        states.append(c0)
    output, h, c = _C.lstm(
        input,
        states,
        self._flat_weights,
        self.bias,
        self.num_layers,
        self.dropout,
        self.training,
        self.bidirectional,
        self.batch_first,
    )
    if single:
        output = output.squeeze(0 if self.batch_first else 1)
        h, c = h.squeeze(1), c.squeeze(1)
    return output, (h, c)


def _check_cell(self, input, state):
    expected = [*input.shape[:-1], self.hidden_size]
    if list(state.shape) != expected:
        raise _C.ShapeError(
            f"{type(self).__name__}: for an input of shape {list(input.shape)} the state must "
            "have shape "
            f"{expected}, got {list(state.shape)}"
        )


def _one_state_cell(self, function, input, hx):
    self._check(input, ())
    single = input.dim() == 1
    if hx is None:
        h = input.new_zeros([*input.shape[:-1], self.hidden_size])
    else:
        h = hx
    _check_cell(self, input, h)
    if single:
        input, h = input.unsqueeze(0), h.unsqueeze(0)
    result = function(input, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
    return result.squeeze(0) if single else result


def _rnn_cell(self, input: Tensor, hx: Optional[Tensor] = None):
    function = _C.rnn_tanh_cell if self.nonlinearity == "tanh" else _C.rnn_relu_cell
    return _one_state_cell(self, function, input, hx)


def _gru_cell(self, input: Tensor, hx: Optional[Tensor] = None):
    return _one_state_cell(self, _C.gru_cell, input, hx)


def _lstm_cell(self, input: Tensor, hx: Optional[Tuple[Tensor, Tensor]] = None):
    self._check(input, ())
    single = input.dim() == 1
    if hx is None:
        h = input.new_zeros([*input.shape[:-1], self.hidden_size])
        c = h
    else:
        h, c = hx[0], hx[1]
    _check_cell(self, input, h)
    _check_cell(self, input, c)
    if single:
        input, h, c = input.unsqueeze(0), h.unsqueeze(0), c.unsqueeze(0)
    h, c = _C.lstm_cell(input, [h, c], self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
    if single:
        h, c = h.squeeze(0), c.squeeze(0)
    return h, c


# Attention ----------------------------------------------------------------------------------------


def _is_causal(mask, hint, length):
    if hint is not None:
        return hint
    if mask is None:
        return False
    if list(mask.shape) != [length, length]:
        return False
    expected = transformer._generate_square_subsequent_mask(length, mask.device, mask.dtype)
    return bool((mask == expected).all())


def _merged_mask(attn_mask, key_padding_mask, dtype):
    if key_padding_mask is None:
        if attn_mask is None:
            return None
        return attn_mask.logical_not() if attn_mask.dtype == _C.bool else attn_mask
    padding = key_padding_mask[:, None, None, :]
    if attn_mask is None:
        return padding.logical_not() if padding.dtype == _C.bool else padding
    if attn_mask.dtype == _C.bool and padding.dtype == _C.bool:
        return (attn_mask | padding).logical_not()
    return attention._as_float(attn_mask, dtype) + attention._as_float(padding, dtype)


def _multihead(
    self,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Optional[Tensor] = None,
    need_weights: bool = True,
    attn_mask: Optional[Tensor] = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
):
    batched = query.dim() == 3
    if query.dim() not in (2, 3) or key.dim() != query.dim() or value.dim() != query.dim():
        raise _C.ShapeError(
            "multi_head_attention: query, key and value must have 3 dimensions, or 2 without a "
            "batch, got "
            f"shapes {list(query.shape)}, {list(key.shape)} and {list(value.shape)}"
        )
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "multi_head_attention: is_causal=True is a hint about attn_mask, which must be given "
            "too; see Transformer.generate_square_subsequent_mask"
        )
    same = query is key and key is value
    if self.batch_first and batched:
        q, k, v, first = query, key, value, True
    elif batched:
        q, k, v, first = query, key, value, False
    else:
        q, k, v, first = query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0), True
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    along = 1 if first else 0
    batch, length, keys = q.size(1 - along), q.size(along), k.size(along)
    heads, size = self.num_heads, self.embed_dim // self.num_heads
    if q.size(2) != self.embed_dim:
        raise RuntimeError(
            f"multi_head_attention: query must have embed_dim={self.embed_dim} features, got shape "
            f"{list(query.shape)}"
        )
    # Where the mask is the causal one, the kernel knows it by itself.
    hinted = is_causal and key_padding_mask is None and not need_weights
    mask = _merged_mask(
        None if hinted else _sized(attn_mask, batch, heads, length, keys), key_padding_mask, q.dtype
    )
    dropout_p = self.dropout if self.training else 0.0
    if self._qkv_same_embed_dim and self.bias_k is None and not self.add_zero_attn:
        if same and not need_weights:
            qkv = _C.linear(q, self.in_proj_weight, self.in_proj_bias)
            out = _C._self_attention(qkv, heads, first, mask, dropout_p, hinted)
            out = _C.linear(out, self.out_proj.weight, self.out_proj.bias)
            return (out if batched else out.squeeze(0)), None
    q, k, v = _projections(self, q, k, v, same)
    if self.bias_k is not None:
        shape = [batch, 1, self.embed_dim] if first else [1, batch, self.embed_dim]
        k = _C.cat([k, self.bias_k.expand(shape)], along)
        v = _C.cat([v, self.bias_v.expand(shape)], along)
    q, k, v = (
        _heads(q, heads, size, first),
        _heads(k, heads, size, first),
        _heads(v, heads, size, first),
    )
    if self.add_zero_attn:
        k = _C.cat([k, k.new_zeros([batch, heads, 1, size])], 2)
        v = _C.cat([v, v.new_zeros([batch, heads, 1, size])], 2)
    if mask is not None and k.size(2) != keys:
        # Everybody may look at the keys that were added.
        if mask.dtype == _C.bool:
            mask = F.pad(mask.logical_not(), [0, k.size(2) - keys]).logical_not()
        else:
            mask = F.pad(mask, [0, k.size(2) - keys])
    weights: Optional[Tensor] = None
    if need_weights:
        out, found = _C._attention_with_weights(
            q, k, v, mask, dropout_p, hinted, average_attn_weights
        )
        weights = found if batched else found.squeeze(0)
    else:
        out = _C.scaled_dot_product_attention(q, k, v, mask, dropout_p, hinted)
    out = (out.transpose(1, 2) if first else out.permute(2, 0, 1, 3)).flatten(2)
    out = _C.linear(out, self.out_proj.weight, self.out_proj.bias)
    return (out if batched else out.squeeze(0)), weights


def _sized(attn_mask, batch, heads, length, keys):
    if attn_mask is None:
        return None
    expected = [length, keys] if attn_mask.dim() == 2 else [batch * heads, length, keys]
    if list(attn_mask.shape) != expected:
        raise RuntimeError(
            f"multi_head_attention: a {attn_mask.dim()}-D attn_mask must have shape {expected}, "
            "got "
            f"{list(attn_mask.shape)}"
        )
    return attn_mask if attn_mask.dim() == 2 else attn_mask.view(batch, heads, length, keys)


def _projections(self, q, k, v, same):
    size = self.embed_dim
    if not self._qkv_same_embed_dim:
        if self.in_proj_bias is None:
            return (
                _C.linear(q, self.q_proj_weight, None),
                _C.linear(k, self.k_proj_weight, None),
                _C.linear(v, self.v_proj_weight, None),
            )
        bias = self.in_proj_bias.split(size)
        return (
            _C.linear(q, self.q_proj_weight, bias[0]),
            _C.linear(k, self.k_proj_weight, bias[1]),
            _C.linear(v, self.v_proj_weight, bias[2]),
        )
    if same:
        a, b, c = _C.linear(q, self.in_proj_weight, self.in_proj_bias).split(size, -1)
        return a, b, c
    if k is v:
        weights = self.in_proj_weight.split([size, 2 * size])
        if self.in_proj_bias is None:
            a, b = _C.linear(k, weights[1], None).split(size, -1)
            return _C.linear(q, weights[0], None), a, b
        biases = self.in_proj_bias.split([size, 2 * size])
        a, b = _C.linear(k, weights[1], biases[1]).split(size, -1)
        return _C.linear(q, weights[0], biases[0]), a, b
    weights = self.in_proj_weight.split(size)
    if self.in_proj_bias is None:
        return (
            _C.linear(q, weights[0], None),
            _C.linear(k, weights[1], None),
            _C.linear(v, weights[2], None),
        )
    biases = self.in_proj_bias.split(size)
    return (
        _C.linear(q, weights[0], biases[0]),
        _C.linear(k, weights[1], biases[1]),
        _C.linear(v, weights[2], biases[2]),
    )


def _heads(x, heads, size, first):
    x = x.unflatten(-1, [heads, size])
    return x.transpose(1, 2) if first else x.permute(1, 2, 0, 3)


# Functions ----------------------------------------------------------------------------------------


def broadcast_sizes(a: List[int], b: List[int]) -> List[int]:
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    joined = list(longer)
    for i in range(1, len(shorter) + 1):
        m, n = longer[-i], shorter[-i]
        if m != n and m != 1 and n != 1:
            raise _C.ShapeError(
                f"broadcast: shapes {a} and {b} do not broadcast: sizes {m} and {n} differ and "
                "neither is 1"
            )
        joined[-i] = n if m == 1 else m
    return joined


_KINDS = {
    "nearest": "nearest",
    "nearest-exact": "nearest-exact",
    "linear": "linear",
    "bilinear": "linear",
    "trilinear": "linear",
    "bicubic": "cubic",
}
_DIMS = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}


def _interpolate(
    input,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=None,
    recompute_scale_factor=None,
    antialias=False,
):
    dims = input.dim() - 2
    if align_corners is not None and mode not in _DIMS:
        raise ValueError(f"interpolate: align_corners is for linear and cubic modes, got {mode!r}")
    if size is not None and scale_factor is not None:
        raise ValueError("interpolate: give size or scale_factor, not both")
    scales = [0.0] * dims
    if size is not None:
        sizes = [int(n) for n in size] if isinstance(size, (list, tuple)) else [int(size)] * dims
    elif scale_factor is not None:
        if isinstance(scale_factor, (list, tuple)):
            factors = [float(s) for s in scale_factor]
        else:
            factors = [float(scale_factor)] * dims
        sizes = [math.floor(n * s) for n, s in zip(input.shape[2:], factors)]  # noqa: B905
        if not recompute_scale_factor:
            scales = factors
    else:
        raise ValueError("interpolate: either size or scale_factor must be given")
    if len(sizes) != dims or len(scales) != dims or (mode in _DIMS and dims != _DIMS[mode]):
        raise NotImplementedError(
            f"interpolate: mode {mode!r} with {len(sizes)} sizes does not take an input of shape "
            f"{list(input.shape)}"
        )
    if mode == "area":
        if dims == 1:
            return _C.adaptive_avg_pool1d(input, sizes)
        if dims == 2:
            return F.adaptive_avg_pool2d(input, sizes)
        return F.adaptive_avg_pool3d(input, sizes)
    kind = _KINDS[mode]
    if antialias:
        kind = "smooth-cubic" if kind == "cubic" else "smooth-linear"
    return _resized(input, sizes, scales, kind, bool(align_corners))


def _resized(input: Tensor, sizes: List[int], scales: List[float], kind: str, align: bool):
    was = input.dtype
    if not input.is_floating_point():
        if was != _C.uint8:
            raise NotImplementedError(f"interpolate: not implemented for {was} tensors")
        input = input.float()
    if kind in ("linear", "smooth-linear", "smooth-cubic"):
        scales = [0.0 if n == m else s for n, m, s in zip(sizes, input.shape[2:], scales)]  # noqa: B905
    result = input
    if input.is_cuda and not kind.startswith("smooth"):
        result = _C._resample_image(input, sizes, kind, align, scales)
    else:
        for d in _by_shrinkage(sizes, list(input.shape[2:])):
            if sizes[d] != input.size(2 + d) or (scales[d] != 0 and scales[d] != 1):
                result = _C._resample(result, 2 + d, sizes[d], kind, align, scales[d])
    if was == _C.uint8:
        return (result if kind.startswith("nearest") else result.round().clamp(0, 255)).to(was)
    return input.clone() if result is input else result


def _by_shrinkage(sizes: List[int], old: List[int]) -> List[int]:
    """The dim that shrinks most first; of equals the last one."""
    order: List[int] = []
    for d in range(len(sizes)):
        at = 0
        while at < len(order) and sizes[order[at]] / max(old[order[at]], 1) < sizes[d] / max(
            old[d], 1
        ):
            at += 1
        order.insert(at, d)
    return order


_FORWARDS = {
    nn.Linear: _linear,
    nn.LSTM: _lstm,
    nn.GRU: _gru,
    nn.RNN: _rnn,
    nn.LSTMCell: _lstm_cell,
    nn.GRUCell: _gru_cell,
    nn.RNNCell: _rnn_cell,
    nn.MultiheadAttention: _multihead,
}
_FUNCTIONS = {
    F.interpolate: _interpolate,
    transformer._is_causal: _is_causal,
    vision._resample: _resized,
}


def replacement(module, method):
    """The function to compile for a method of a module; None: its own."""
    if method != "forward":
        return None
    for cls, fn in _FORWARDS.items():
        if isinstance(module, cls) and type(module).forward is cls.forward:
            return fn
    return None


def function_for(fn):
    """The function to compile for a function."""
    from rushlight.jit._script.signals import FUNCTIONS

    return _FUNCTIONS.get(fn) or FUNCTIONS.get(fn, fn)
