"""What quantized layers share: weights as integers, and results in the steps they were given."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import _C, Tensor
from rushlight._quantized.tensor import QuantizedTensor, Quantizer, plain
from rushlight.nn import Module


def quantized_weight(weight: Tensor, observer: Any) -> QuantizedTensor:
    """A weight in the steps that its observer, or fake quantizer, chooses for it."""
    observer(weight)
    scale, zero = observer.calculate_qparams()
    w = weight.detach().float()
    if scale.numel() > 1 or observer.qscheme.name.startswith("per_channel"):
        axis = getattr(observer, "ch_axis", 0)
        made: Any = rushlight.quantize_per_channel(w, scale, zero, axis, rushlight.qint8)
        return made
    made = rushlight.quantize_per_tensor(w, float(scale), int(zero), rushlight.qint8)
    return made


def weight_scales(weight: QuantizedTensor) -> Tensor:
    """One float32 scale for each output."""
    q = weight._quantizer
    if q.axis is None:
        return _C.full((weight.shape[0],), q.scale)
    return q.scale.to(_C.float32)


def weight_integers(weight: QuantizedTensor) -> Tensor:
    """The integers less their zero points, in int8 where they fit."""
    q, integers = weight._quantizer, plain(weight)
    zero = q.zero_point
    if q.axis is None and zero == 0:
        return integers
    if q.axis is not None:
        if not bool(zero.any()):
            return integers
        zero = zero.reshape([-1] + [1] * (integers.dim() - 1))
    moved = integers.to(_C.int32) - zero
    if bool((moved.abs() > 127).any()):
        raise NotImplementedError("quantized layers need weights that are quantized symmetrically")
    return moved.to(_C.int8)


def checked_input(name: str, x: Tensor) -> QuantizedTensor:
    """A quantized input with one scale."""
    if not isinstance(x, QuantizedTensor):
        raise RuntimeError(
            f"{name}: expects a quantized tensor, got {x.dtype}: put a QuantStub before it"
        )
    x._by_tensor(name)
    return x


class QuantizedLayer(Module):
    """A layer with a weight in int8, a bias in floats, and the steps of its result."""

    _with_relu = False
    scale: float
    zero_point: int

    def _keep(self, weight: QuantizedTensor, bias: Tensor | None) -> None:
        self._weight, self._bias = weight, bias
        self._integers, self._scales = weight_integers(weight), weight_scales(weight)

    def weight(self) -> QuantizedTensor:
        """The quantized weight."""
        return self._weight

    def bias(self) -> Tensor | None:
        """The bias, in floats."""
        return self._bias

    def _steps(self, x: QuantizedTensor) -> tuple[Any, ...]:
        """Both ends' scales and zero points, and what becomes of the sums."""
        q = x._quantizer
        scales, zeros = [q.scale, self.scale], [q.zero_point, self.zero_point]
        return scales, zeros, self._with_relu, _C.uint8

    def _result(self, integers: Tensor) -> QuantizedTensor:
        return QuantizedTensor.of(
            integers, Quantizer(rushlight.quint8, self.scale, self.zero_point)
        )

    def get_extra_state(self) -> tuple[Any, ...]:
        """Weight, bias and steps; files keep them."""
        return self._weight, self._bias, self.scale, self.zero_point

    def set_extra_state(self, state: Any) -> None:
        """What get_extra_state gave."""
        weight, bias, self.scale, self.zero_point = state
        self._keep(weight, bias)

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"


def result_steps(mod: Any) -> tuple[float, int]:
    """Scale and zero point that a module's observer chose for its results."""
    scale, zero = mod.activation_post_process.calculate_qparams()
    return float(scale), int(zero)


def weight_observer(mod: Any) -> Any:
    """The fake quantizer that a weight was trained with, or a fresh observer."""
    return mod.weight_fake_quant if hasattr(mod, "weight_fake_quant") else mod.qconfig.weight()
