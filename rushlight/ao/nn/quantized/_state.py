"""What quantized modules keep in state dicts, under the names that PyTorch gives it."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import _C, Tensor
from rushlight._quantized.tensor import QuantizedTensor, plain
from rushlight.nn import Module


class Named:
    """A module that shows its kind before the name of its class."""

    _kind = "Quantized"

    def _get_name(self) -> str:
        return self._kind + type(self).__name__


class WithEntries(Module):
    """A module whose state dict has entries that are neither parameters nor buffers."""

    def _entries(self) -> dict[str, Any]:
        """The entries by name."""
        return {}

    def _take(self, entries: dict[str, Any]) -> None:
        """Takes what _entries of another module gave; raises for what does not fit."""

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name, value in self._entries().items():
            destination[prefix + name] = value

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any,
        unexpected_keys: Any, error_msgs: Any,
    ) -> None:  # fmt: skip
        names = list(self._entries())
        found = {
            name: state_dict.pop(prefix + name) for name in names if prefix + name in state_dict
        }
        missing_keys += [prefix + name for name in names if name not in found]
        if len(found) == len(names):
            try:
                self._take(found)
            except (AttributeError, TypeError, ValueError, RuntimeError) as error:
                error_msgs.append(f"{prefix.rstrip('.')}: {error}")
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


def step_entries(module: Any) -> dict[str, Any]:
    """Scale and zero point of a module's results as state dicts have them."""
    return {
        "scale": _C.tensor(module.scale, dtype=_C.float32),
        "zero_point": _C.tensor(module.zero_point, dtype=_C.int64),
    }


def take_steps(module: Any, entries: dict[str, Any]) -> None:
    """The other way round."""
    module.scale, module.zero_point = float(entries["scale"]), int(entries["zero_point"])


def weight_scales(weight: QuantizedTensor, outputs: int) -> Tensor:
    """One float32 scale for each output."""
    q = weight._quantizer
    if q.axis is None:
        return _C.full((outputs,), q.scale)
    return q.scale.to(_C.float32)


def weight_integers(weight: QuantizedTensor) -> Tensor:
    """The integers less their zero points, in int8 where they fit."""
    q, integers = weight._quantizer, plain(weight).contiguous()
    zero = q.zero_point
    if q.axis is None and zero == 0:
        return integers
    if q.axis is not None:
        if not bool(zero.any()):
            return integers
        zero = zero.reshape([-1 if d == q.axis else 1 for d in range(integers.dim())])
    moved = integers.to(_C.int32) - zero
    if bool((moved.abs() > 127).any()):
        raise NotImplementedError("quantized layers need weights that are quantized symmetrically")
    return moved.to(_C.int8)


class Packed:
    """A quantized weight with its bias, ready to be multiplied with: integers around 0 and one
    scale for each of `outputs` (0: as many as the weight is long)."""

    def __init__(self, weight: QuantizedTensor, bias: Tensor | None, outputs: int = 0) -> None:
        if not isinstance(weight, QuantizedTensor) or weight.dtype != rushlight.qint8:
            kind = getattr(weight, "dtype", type(weight).__name__)
            raise TypeError(f"the weight must be quantized as qint8, got {kind}")
        # A transposed convolution has its outputs second, and one scale for all.
        if weight._quantizer.axis not in ((None,) if outputs else (None, 0)):
            raise RuntimeError(
                f"the weight has scales along dim {weight._quantizer.axis}; the layer needs "
                + ("one for all" if outputs else "one for all, or scales along dim 0")
            )
        if bias is not None and not isinstance(bias, Tensor):
            raise TypeError(f"the bias must be a tensor or None, got {type(bias).__name__}")
        self.weight, self.outputs = weight, outputs
        self.bias = None if bias is None else bias.detach().float()
        self.integers = weight_integers(weight)
        self.scales = weight_scales(weight, outputs or weight.shape[0])

    def __reduce__(self) -> Any:
        return Packed, (self.weight, self.bias, self.outputs)

    @property
    def likeness(self) -> tuple[Any, ...]:
        """The shapes of weight and bias."""
        return tuple(self.weight.shape), None if self.bias is None else tuple(self.bias.shape)


def checked_pack(old: Packed, weight: Any, bias: Any) -> Packed:
    """A weight from a file, in place of one that it must be like."""
    made = Packed(weight, bias, old.outputs)
    if made.likeness != old.likeness:
        raise ValueError(
            f"size mismatch: weight and bias are {made.likeness}, the layer's {old.likeness}"
        )
    return made


class LinearPackedParams(WithEntries):
    """The weight and bias of a quantized Linear, a module of its own in state dicts."""

    _version = 3

    def __init__(self, dtype: Any = None) -> None:
        super().__init__()
        self.dtype = rushlight.qint8 if dtype is None else dtype
        zeros = rushlight.quantize_per_tensor(_C.zeros(1, 1), 1.0, 0, rushlight.qint8)
        self.set_weight_bias(zeros, None)

    def set_weight_bias(self, weight: Any, bias: Tensor | None) -> None:
        """Takes another weight."""
        self.packed = Packed(weight, bias)

    @property
    def _packed_params(self) -> tuple[QuantizedTensor, Tensor | None]:
        return self.packed.weight, self.packed.bias

    def _weight_bias(self) -> tuple[QuantizedTensor, Tensor | None]:
        return self._packed_params

    def _entries(self) -> dict[str, Any]:
        return {"dtype": self.dtype, "_packed_params": self._packed_params}

    def _take(self, entries: dict[str, Any]) -> None:
        weight, bias = entries["_packed_params"]
        self.packed = checked_pack(self.packed, weight, bias)
