"""Functions and methods of rushlight as the compiler reads them, where their own source is written
for speed in Python or takes what programs have not. Each does what the original does."""

from __future__ import annotations

import importlib
import math
from typing import List, Optional, Tuple  # noqa: UP035

import rushlight
from rushlight import _C, nn
from rushlight._C import Tensor
from rushlight.jit._script import attention
from rushlight.jit._script.errors import refuse
from rushlight.nn import functional as F
from rushlight.nn.functional import vision
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
    nn.MultiheadAttention: attention.multihead,
}
_REFUSED = {
    rushlight.histogramdd: "it cuts along dims whose number is known late",
}
_FUNCTIONS = {
    F.interpolate: _interpolate,
    F.multi_head_attention_forward: attention.multi_head_attention_forward,
    transformer._is_causal: attention.is_causal,
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

    if hasattr(fn, "calls"):  # a method of Tensor that loads its module
        module, name = fn.calls
        fn = getattr(importlib.import_module(module), name)
    if fn in _REFUSED:
        refuse(f"{fn.__name__} is not there in programs: {_REFUSED[fn]}")
    return _FUNCTIONS.get(fn) or FUNCTIONS.get(fn, fn)
