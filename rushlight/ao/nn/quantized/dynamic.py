"""Layers with weights in int8 that take floats: their steps are chosen for each input."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import _C, Tensor
from rushlight.ao.nn.quantized._joined import joined_parts
from rushlight.ao.nn.quantized._state import (
    LinearPackedParams,
    Named,
    Packed,
    WithEntries,
    checked_pack,
)
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

    _kind = "DynamicQuantized"
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
        w: Packed = self._packed
        numbers = x.float() if x.is_floating_point() else x  # which says that it is none
        made = _C._dynamic_linear(numbers, w.integers, w.scales, w.bias, self._with_relu)
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


class LinearReLU(Linear):
    """A Linear and a ReLU with an int8 weight, over floats."""

    _with_relu = True


class LSTM(Named, WithEntries):
    """nn.LSTM with int8 weights, over floats."""

    _kind = "DynamicQuantized"

    def __init__(self, like: Any) -> None:
        super().__init__()
        if like.proj_size:
            raise NotImplementedError("LSTM: projections (proj_size) are not quantized")
        kept = "input_size hidden_size num_layers batch_first dropout bidirectional"
        for name in kept.split():
            setattr(self, name, getattr(like, name))

    def _keep(self, state: Any) -> None:
        """Weights and biases of the input and of the state, for each layer and direction."""
        self._pairs = [(Packed(w, b), Packed(w_state, b_state)) for w, w_state, b, b_state in state]
        self._cells = []
        for one, other in self._pairs:
            bias = None if one.bias is None or other.bias is None else one.bias + other.bias
            self._cells.append((one.integers, one.scales, other.integers, other.scales, bias))

    def _entries(self) -> dict[str, Any]:
        return {
            f"_all_weight_values.{i}.param": (one.weight, other.weight, one.bias, other.bias)
            for i, (one, other) in enumerate(self._pairs)
        }

    def _take(self, entries: dict[str, Any]) -> None:
        state = []
        for old, (w, w_state, b, b_state) in zip(self._pairs, entries.values(), strict=True):
            checked_pack(old[0], w, b), checked_pack(old[1], w_state, b_state)
            state.append((w, w_state, b, b_state))
        self._keep(state)

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
        if input.dim() not in (2, 3):
            raise _C.ShapeError(
                "LSTM: the input must have 3 dimensions, or 2 without a batch, got shape "
                f"{list(input.shape)}"
            )
        batched = input.dim() == 3
        x = input if batched else input.unsqueeze(0 if self.batch_first else 1)
        x = x.transpose(0, 1) if self.batch_first else x
        ways = 2 if self.bidirectional else 1
        shape = [self.num_layers * ways, x.shape[1], self.hidden_size]
        if hx is None:
            zeros = _C.zeros(shape)
            hx = (zeros, zeros)
        elif not batched:
            hx = (hx[0].unsqueeze(1), hx[1].unsqueeze(1))
        if [list(state.shape) for state in hx] != [shape, shape]:
            got = [list(state.shape) for state in hx]
            raise _C.ShapeError(f"LSTM: the initial h and c must have shape {shape}, got {got}")
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
