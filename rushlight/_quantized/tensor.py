"""QuantizedTensor: a tensor of integers that knows which numbers they stand for.

It is loaded when first used: a class with a __torch_function__ of its own makes the bindings look
at the class of every argument of every operation from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, SupportsIndex

from rushlight import _C
from rushlight._quantized.schemes import SCHEMES, QuantizationScheme, bounds, storage_dtype

__all__ = ["QuantizedTensor", "Quantizer", "quantized"]


class Quantizer(NamedTuple):
    """scale * (integer - zero_point), with one of each or one for each index along `axis`."""

    dtype: Any  # quint8, qint8 or qint32
    scale: Any  # float; by channel a float64 tensor
    zero_point: Any  # int; by channel an int64 tensor
    axis: int | None = None

    @property
    def scheme(self) -> QuantizationScheme:
        return SCHEMES["per_tensor_affine" if self.axis is None else "per_channel_affine"]

    def along(self, x: _C.Tensor) -> tuple[Any, Any]:
        """Scale and zero point in float32, as they are broadcast over x."""
        if self.axis is None:
            return _C.tensor(self.scale, dtype=_C.float32, device=x.device), self.zero_point
        shape = [1] * x.dim()
        shape[self.axis] = -1
        scale = self.scale.to(x.device, _C.float32).reshape(shape)
        return scale, self.zero_point.to(x.device, _C.float32).reshape(shape)

    def integers(self, x: _C.Tensor) -> _C.Tensor:
        """The integers for numbers: to nearest, ties to even, and no further than there are."""
        stored = storage_dtype("quantize", self.dtype)
        low, high = bounds(stored)
        scale, zero = self.along(x)
        steps = (x * (1.0 / scale) + zero).round()
        if stored == _C.int32:  # whose bounds no float32 holds
            steps = steps.double()
        # A NaN is the largest number, as on PyTorch's CPUs.
        return steps.clamp(low, high).nan_to_num(nan=high).to(stored)

    def numbers(self, integers: _C.Tensor) -> _C.Tensor:
        """The numbers that integers stand for."""
        scale, zero = self.along(integers)
        if integers.dtype == _C.int32:
            return ((integers.double() - zero) * scale.double()).to(_C.float32)
        return (integers.to(_C.float32) - zero) * scale


# What moves elements and keeps their meaning; by channel only the second kind.
_MOVES = frozenset(
    """view reshape permute transpose t flatten unsqueeze squeeze expand select narrow chunk split
    unbind index_select __getitem__ movedim swapaxes roll flip view_as reshape_as expand_as
    unflatten max_pool1d max_pool2d max_pool3d amax amin max min repeat channel_shuffle
    pixel_shuffle pixel_unshuffle""".split()
)
_COPIES = frozenset("clone contiguous detach cpu cuda pin_memory alias".split())
# What is computed in floats and rounded to the same steps again.
_AVERAGES = frozenset(
    """mean avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d
    adaptive_avg_pool3d interpolate upsample hardtanh relu6 clamp hardtanh_ threshold""".split()
)
_QUESTIONS = frozenset(
    """size dim ndimension numel nelement stride storage_offset element_size is_contiguous data_ptr
    get_device is_floating_point is_complex untyped_storage __len__ __hash__ is_shared __get__
    _version type_as""".split()
)
_COMPARED = frozenset("eq ne lt le gt ge equal __eq__ __ne__ isclose allclose".split())


class QuantizedTensor(_C.Tensor):
    """Integers with a scale and a zero point: what quantize_per_tensor and its kin return."""

    _quantizer: Quantizer

    @staticmethod
    def of(integers: _C.Tensor, quantizer: Quantizer) -> QuantizedTensor:
        """The tensor over the memory of its integers."""
        made = _C.Tensor._make_subclass(QuantizedTensor, integers.detach())
        made._quantizer = quantizer
        return made

    @property
    def dtype(self) -> Any:
        """quint8, qint8 or qint32."""
        return self._quantizer.dtype

    @property
    def is_quantized(self) -> bool:
        """True."""
        return True

    def int_repr(self) -> _C.Tensor:
        """A copy of the integers."""
        return plain(self).clone()

    def dequantize(self) -> _C.Tensor:
        """The numbers, in float32."""
        return self._quantizer.numbers(plain(self))

    def qscheme(self) -> QuantizationScheme:
        """per_tensor_affine or per_channel_affine."""
        return self._quantizer.scheme

    def _by_tensor(self, name: str) -> Quantizer:
        if self._quantizer.axis is not None:
            raise RuntimeError(f"{name}: the tensor is quantized by channel: use q_per_channel_*")
        return self._quantizer

    def _by_channel(self, name: str) -> Quantizer:
        if self._quantizer.axis is None:
            raise RuntimeError(f"{name}: the tensor is quantized as a whole: use q_scale")
        return self._quantizer

    def q_scale(self) -> float:
        """The scale of a tensor that has one."""
        return self._by_tensor("q_scale").scale

    def q_zero_point(self) -> int:
        """The integer that stands for 0."""
        return self._by_tensor("q_zero_point").zero_point

    def q_per_channel_scales(self) -> _C.Tensor:
        """One scale for each channel, in float64."""
        return self._by_channel("q_per_channel_scales").scale.clone()

    def q_per_channel_zero_points(self) -> _C.Tensor:
        """One zero point for each channel."""
        return self._by_channel("q_per_channel_zero_points").zero_point.clone()

    def q_per_channel_axis(self) -> int:
        """The dim whose indices are the channels."""
        axis = self._by_channel("q_per_channel_axis").axis
        assert axis is not None
        return axis

    def item(self) -> float:
        """The one number."""
        return self.dequantize().item()

    def to(self, *args: Any, **kwargs: Any) -> QuantizedTensor:
        """The tensor on another device."""
        moved = plain(self).to(*args, **kwargs)
        if moved.dtype != plain(self).dtype:
            raise RuntimeError("to: a quantized tensor has no other dtype; use dequantize()")
        return QuantizedTensor.of(moved, self._quantizer)

    def copy_(self, src: Any, non_blocking: bool = False) -> QuantizedTensor:
        """Numbers, or another quantized tensor, brought to this tensor's steps."""
        numbers = src.dequantize() if isinstance(src, QuantizedTensor) else _C.as_tensor(src)
        plain(self).copy_(self._quantizer.integers(numbers.to(_C.float32)))
        return self

    def fill_(self, value: Any) -> QuantizedTensor:
        """One number everywhere."""
        return self.copy_(_C.full((), float(value)))

    def relu(self) -> QuantizedTensor:
        """The larger of each number and 0."""
        zero = self._by_tensor("relu").zero_point
        return QuantizedTensor.of(plain(self).clamp(min=zero), self._quantizer)

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        text = repr(self.dequantize())
        cut = text.rfind("]") + 1 if "]" in text else text.rfind(")")
        q = self._quantizer
        values = text[:cut].split(", dtype=")[0]
        parts = [f"size={tuple(self.shape)}", f"dtype={q.dtype}"]
        parts.append(f"quantization_scheme={q.scheme}")
        parts += [f"scale={q.scale}", f"zero_point={q.zero_point}"]
        if q.axis is not None:
            parts.append(f"axis={q.axis}")
        return f"{values}, {', '.join(parts)})"

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return QuantizedTensor.of, (plain(self), self._quantizer)

    def __deepcopy__(self, memo: dict[int, Any]) -> QuantizedTensor:
        made = QuantizedTensor.of(plain(self).clone(), self._quantizer)
        memo[id(self)] = made
        return made

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in _QUESTIONS or type(func).__name__ == "method-wrapper":
            return _C._disabled_torch_function_impl(func, types, args, kwargs)
        if name in ("cat", "concat", "stack"):
            return _joined(func, *args, **kwargs)
        if name in ("relu", "relu_"):
            return args[0].relu()
        if name in _COMPARED:
            return func(*[_numbers(a) for a in args], **kwargs)
        first = args[0] if args else None
        if not isinstance(first, QuantizedTensor):
            raise NotImplementedError(_refusal(name))
        if name in _COPIES or (name in _MOVES and first._quantizer.axis is None):
            return _wrapped(func(plain(first), *args[1:], **kwargs), first._quantizer)
        if name in _AVERAGES and first._quantizer.axis is None:
            result = func(first.dequantize(), *args[1:], **kwargs)
            return quantized(result, first._quantizer)
        raise NotImplementedError(_refusal(name))


def _refusal(name: str) -> str:
    return f"{name}: not implemented for quantized tensors; call dequantize() first"


def plain(t: QuantizedTensor) -> _C.Tensor:
    """The integers, over the same memory."""
    with _C.DisableTorchFunctionSubclass():
        return t.as_subclass(_C.Tensor)


def quantized(x: _C.Tensor, quantizer: Quantizer) -> QuantizedTensor:
    """Numbers as a quantized tensor."""
    return QuantizedTensor.of(quantizer.integers(x), quantizer)


def _numbers(value: Any) -> Any:
    return value.dequantize() if isinstance(value, QuantizedTensor) else value


def _wrapped(result: Any, quantizer: Quantizer) -> Any:
    if isinstance(result, _C.Tensor):
        is_index = result.dtype != storage_dtype("quantize", quantizer.dtype)
        return result if is_index else QuantizedTensor.of(result, quantizer)
    if isinstance(result, tuple | list):
        parts = [_wrapped(r, quantizer) for r in result]
        return type(result)(parts)
    return result


def _joined(func: Callable[..., Any], tensors: Any, *args: Any, **kwargs: Any) -> QuantizedTensor:
    """cat and stack, in the steps of the first tensor."""
    first = tensors[0]
    if not all(isinstance(t, QuantizedTensor) and t._quantizer.axis is None for t in tensors):
        raise NotImplementedError(_refusal(getattr(func, "__name__", "cat")))
    same = first._quantizer
    parts = [plain(t) if t._quantizer == same else same.integers(t.dequantize()) for t in tensors]
    return QuantizedTensor.of(func(parts, *args, **kwargs), same)
