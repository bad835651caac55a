"""Layers with weights in int8 that take floats: their steps are chosen for each input."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import _C, Tensor
from rushlight._quantized.tensor import QuantizedTensor
from rushlight.ao._exchange import rows_of
from rushlight.ao.nn.quantized._weights import (
    quantized_weight,
    weight_integers,
    weight_scales,
)
from rushlight.nn import Module
from rushlight.nn.functional import dropout

__all__ = ["LSTM", "Linear"]


class _Weight:
    """A quantized matrix, ready to be multiplied with."""

    def __init__(self, weight: QuantizedTensor) -> None:
        self.weight = weight
        self.integers, self.scales = weight_integers(weight), weight_scales(weight)


class _Dynamic(Module):
    def get_extra_state(self) -> tuple[Any, ...]:
        """The weights; files keep them."""
        return self._state

    def set_extra_state(self, state: Any) -> None:
        """What get_extra_state gave."""
        self._take(state)

    def _get_name(self) -> str:
        return f"DynamicQuantized{type(self).__name__}"


class Linear(_Dynamic):
    """nn.Linear with an int8 weight, over floats."""

    def __init__(self, in_features: int, out_features: int, bias_: bool = True,
                 dtype: Any = None) -> None:  # fmt: skip
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        zeros = _C.zeros(out_features, in_features)
        weight = rushlight.quantize_per_tensor(zeros, 1.0, 0, rushlight.qint8)
        self._take((weight, _C.zeros(out_features) if bias_ else None))

    def _take(self, state: Any) -> None:
        self._state = state
        self._packed, self._bias = _Weight(state[0]), state[1]

    def weight(self) -> QuantizedTensor:
        """The quantized weight."""
        return self._packed.weight

    def bias(self) -> Tensor | None:
        """The bias, in floats."""
        return self._bias

    def forward(self, x: Tensor) -> Tensor:
        rows_of(self, x)
        w = self._packed
        return _C._dynamic_linear(x.float(), w.integers, w.scales, self._bias, False).to(x.dtype)

    @classmethod
    def from_float(cls, mod: Any) -> Linear:
        """In place of a Linear."""
        made = cls(mod.in_features, mod.out_features, mod.bias is not None)
        weight = quantized_weight(mod.weight, mod.qconfig.weight())
        made._take((weight, None if mod.bias is None else mod.bias.detach().float()))
        return made

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"dtype={rushlight.qint8}, qscheme={self.weight().qscheme()}"
        )


class LSTM(_Dynamic):
    """nn.LSTM with int8 weights, over floats."""

    def __init__(self, like: Any) -> None:
        super().__init__()
        if like.proj_size:
            raise NotImplementedError("LSTM: projections (proj_size) are not quantized")
        kept = "input_size hidden_size num_layers batch_first dropout bidirectional"
        for name in kept.split():
            setattr(self, name, getattr(like, name))

    def _take(self, state: Any) -> None:
        self._state = state
        self._cells = []
        for w_input, w_state, of_input, of_state in state:
            one, other = _Weight(w_input), _Weight(w_state)
            bias = None if of_input is None else of_input + of_state
            self._cells.append((one.integers, one.scales, other.integers, other.scales, bias))

    @classmethod
    def from_float(cls, mod: Any) -> LSTM:
        """In place of an LSTM."""
        made, state = cls(mod), []
        for layer in range(mod.num_layers):
            for end in ("", "_reverse")[: 2 if mod.bidirectional else 1]:
                end = f"_l{layer}{end}"
                weights = [
                    quantized_weight(getattr(mod, name + end), mod.qconfig.weight())
                    for name in ("weight_ih", "weight_hh")
                ]
                biases = [
                    getattr(mod, name + end).detach().float() if mod.bias else None
                    for name in ("bias_ih", "bias_hh")
                ]
                state.append((*weights, *biases))
        made._take(tuple(state))
        made.train(mod.training)
        return made

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        if not isinstance(input, Tensor):
            raise NotImplementedError("LSTM: packed sequences are not taken by the quantized layer")
        batched = input.dim() == 3
        x = input if batched else input.unsqueeze(0 if self.batch_first else 1)
        x = x.transpose(0, 1) if self.batch_first else x
        ways = 2 if self.bidirectional else 1
        if hx is None:
            zeros = _C.zeros(self.num_layers * ways, x.shape[1], self.hidden_size)
            hx = (zeros, zeros)
        elif not batched:
            hx = (hx[0].unsqueeze(1), hx[1].unsqueeze(1))
        hs, cs = [], []
        for layer in range(self.num_layers):
            outs = []
            for way in range(ways):
                at = layer * ways + way
                state = (hx[0][at], hx[1][at])
                out, h, c = _C._dynamic_lstm(x, *self._cells[at], *state, way == 1)
                outs.append(out)
                hs.append(h)
                cs.append(c)
            x = _C.cat(outs, -1)
            if layer + 1 < self.num_layers:
                x = dropout(x, self.dropout, self.training)
        x = x.transpose(0, 1) if self.batch_first else x
        last = (_C.stack(hs), _C.stack(cs))
        if not batched:
            x = x.squeeze(0 if self.batch_first else 1)
            last = (last[0].squeeze(1), last[1].squeeze(1))
        return x, last

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"
