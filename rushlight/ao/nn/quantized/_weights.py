"""What quantized layers share: weights as integers, and results in the steps they were given."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import _C, Tensor
from rushlight._quantized.tensor import QuantizedTensor, Quantizer
from rushlight.ao.nn.quantized._state import (
    LinearPackedParams,
    Named,
    Packed,
    WithEntries,
    checked_pack,
    step_entries,
    take_steps,
)


def quantized_weight(weight: Tensor, observer: Any) -> QuantizedTensor:
    """A weight in the steps that its observer, or fake quantizer, chooses for it."""
    observer(weight)
    scale, zero = observer.calculate_qparams()
    w = weight.detach().float()
    if scale.numel() > 1 or observer.qscheme.name.startswith("per_channel"):
        axis = getattr(observer, "ch_axis", 0)
        made: Any = rushlight.quantize_per_channel(w, scale, zero, axis, observer.dtype)
        return made
    made = rushlight.quantize_per_tensor(w, float(scale), int(zero), observer.dtype)
    return made


def checked_input(name: str, x: Tensor) -> QuantizedTensor:
    """A quantized input with one scale."""
    if not isinstance(x, QuantizedTensor):
        raise RuntimeError(
            f"{name}: expects a quantized tensor, got {x.dtype}: put a QuantStub before it"
        )
    x._by_tensor(name)
    return x


class QuantizedLayer(Named, WithEntries):
    """A layer with a weight in int8, a bias in floats, and the steps of its result."""

    _with_relu = False
    scale: float
    zero_point: int
    _packed: Any

    def _outputs(self) -> int:
        return 0

    def set_weight_bias(self, w: Any, b: Tensor | None) -> None:
        """Takes another quantized weight, and another bias."""
        self._packed = Packed(w, b, self._outputs())

    def _weight_bias(self) -> tuple[QuantizedTensor, Tensor | None]:
        return self._packed.weight, self._packed.bias

    def weight(self) -> QuantizedTensor:
        """The quantized weight."""
        return self._packed.weight

    def bias(self) -> Tensor | None:
        """The bias, in floats."""
        return self._packed.bias

    def _steps(self, x: QuantizedTensor) -> tuple[list[float], list[int], bool, _C.dtype]:
        """Both ends' scales and zero points, and what becomes of the sums."""
        q = x._quantizer
        scales, zeros = [q.scale, self.scale], [q.zero_point, self.zero_point]
        return scales, zeros, self._with_relu, _C.uint8

    def _result(self, integers: Tensor) -> QuantizedTensor:
        return QuantizedTensor.of(
            integers, Quantizer(rushlight.quint8, self.scale, self.zero_point)
        )

    def _entries(self) -> dict[str, Any]:
        weight, bias = self._weight_bias()
        return {"weight": weight, "bias": bias, **step_entries(self)}

    def _take(self, entries: dict[str, Any]) -> None:
        self._packed = checked_pack(self._packed, entries["weight"], entries["bias"])
        take_steps(self, entries)


class PackedLinear(QuantizedLayer):
    """A layer whose weight is a child in state dicts."""

    _packed_params: LinearPackedParams

    @property
    def _packed(self) -> Packed:
        return self._packed_params.packed

    def set_weight_bias(self, w: Any, b: Tensor | None) -> None:
        """Takes another quantized weight, and another bias."""
        self._packed_params.set_weight_bias(w, b)

    def _entries(self) -> dict[str, Any]:
        return step_entries(self)

    def _take(self, entries: dict[str, Any]) -> None:
        take_steps(self, entries)


def zero_weight(shape: Any) -> Tensor:
    """What a layer has before it gets its weight."""
    made: Any = rushlight.quantize_per_tensor(_C.zeros(shape), 1.0, 0, rushlight.qint8)
    return made


def result_steps(mod: Any) -> tuple[float, int]:
    """Scale and zero point that a module's observer chose for its results."""
    scale, zero = mod.activation_post_process.calculate_qparams()
    return float(scale), int(zero)


def weight_observer(mod: Any) -> Any:
    """The fake quantizer that a weight was trained with, or a fresh observer."""
    return mod.weight_fake_quant if hasattr(mod, "weight_fake_quant") else mod.qconfig.weight()
