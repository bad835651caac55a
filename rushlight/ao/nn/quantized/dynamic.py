"""Layers with weights in int8 that take floats: their steps are chosen for each input."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import _C, Tensor
from rushlight.ao._exchange import rows_of
from rushlight.ao.nn.quantized._joined import joined_parts
from rushlight.ao.nn.quantized._state import LinearPackedParams, Packed, WithEntries
from rushlight.ao.nn.quantized._weights import (
    PackedLinear,
    quantized_weight,
    weight_observer,
    zero_weight,
)
from rushlight.nn.functional import dropout

__all__ = ["LSTM", "Linear", "LinearReLU"]


class Linear(PackedLinear):
    """nn.Linear with an int8 weight, over floats."""

    _version = 4

    def __init__(
        self, in_features: int, out_features: int, bias_: bool = True, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.scale, self.zero_point = 1.0, 0  # state dicts have them; nobody uses them
        self._packed_params = LinearPackedParams(dtype)
        bias = _C.zeros(out_features) if bias_ else None
        self.set_weight_bias(zero_weight((out_features, in_features)), bias)

    def forward(self, x: Tensor) -> Tensor:
        """x @ weight.T + bias."""
        rows_of(self, x)
        w: Packed = self._packed
        made = _C._dynamic_linear(x.float(), w.integers, w.scales, w.bias, self._with_relu)
        return made.to(x.dtype)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Linear:
        """In place of a Linear (and the ReLU behind it)."""
        inner, weight, bias = joined_parts(mod)
        made = cls(inner.in_features, inner.out_features, bias is not None)
        made.set_weight_bias(quantized_weight(weight, weight_observer(inner)), bias)
        return made

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"dtype={rushlight.qint8}, qscheme={self.weight().qscheme()}"
        )

    def _get_name(self) -> str:
        return f"DynamicQuantized{type(self).__name__}"


class LinearReLU(Linear):
    """A Linear and a ReLU with an int8 weight, over floats."""

    _with_relu = True


class LSTM(WithEntries):
    """nn.LSTM with int8 weights, over floats."""

    def __init__(self, like: Any) -> None:
        super().__init__()
        if like.proj_size:
            raise NotImplementedError("LSTM: projections (proj_size) are not quantized")
        kept = "input_size hidden_size num_layers batch_first dropout bidirectional"
        for name in kept.split():
            setattr(self, name, getattr(like, name))

    def _keep(self, state: Any) -> None:
        """Weights and biases of the input and of the state, for each layer and direction."""
        self._state, self._cells = tuple(state), []
        for w_input, w_state, of_input, of_state in self._state:
            bias = None if of_input is None else of_input + of_state
            one, other = Packed(w_input, bias), Packed(w_state, None)
            self._cells.append((one.integers, one.scales, other.integers, other.scales, bias))

    def _entries(self) -> dict[str, Any]:
        return {f"_all_weight_values.{i}.param": cell for i, cell in enumerate(self._state)}

    def _take(self, entries: dict[str, Any]) -> None:
        old = [w.shape for cell in self._state for w in cell[:2]]
        if [w.shape for cell in entries.values() for w in cell[:2]] != old:
            raise ValueError(f"size mismatch: the layer's weights are {[tuple(s) for s in old]}")
        self._keep(entries.values())

    def _get_name(self) -> str:
        return "DynamicQuantizedLSTM"

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
        made._keep(state)
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
