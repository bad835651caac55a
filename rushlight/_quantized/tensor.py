"""QuantizedTensor: a tensor of integers that knows which numbers they stand for.

It is loaded when first used: a class with a __torch_function__ of its own makes the bindings look
at the class of every argument of every operation from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, SupportsIndex

from rushlight import _C
from rushlight._quantized.schemes import (
    DTYPES,
    SCHEMES,
    QuantizationScheme,
    bounds,
    storage_dtype,
)
from rushlight._tensor_str import join_suffixes

__all__ = ["QuantizedTensor", "Quantizer", "quantized"]


class Quantizer(NamedTuple):
    """scale * (integer - zero_point), with one of each or one for each index along `axis`."""

    dtype: Any  # quint8, qint8 or qint32
    scale: Any  # float; by channel a float64 tensor
    zero_point: Any  # int; by channel an int64 tensor, or a float32 one with a float32 scale
    axis: int | None = None

    @property
    def scheme(self) -> QuantizationScheme:
        if self.axis is None:
            return SCHEMES["per_tensor_affine"]
        whole = not self.zero_point.is_floating_point()
        return SCHEMES["per_channel_affine" if whole else "per_channel_affine_float_qparams"]

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
        if self.axis is None and stored != _C.int32 and x.dtype == _C.float32:
            return _C._quantize_steps(x, self.scale, self.zero_point, stored)
        low, high = bounds(stored)
        scale, zero = self.along(x)
        steps = (x * (1.0 / scale) + zero).round()
        if stored == _C.int32:  # whose bounds no float32 holds
            steps = steps.double()
        # A NaN is the largest number, or the lowest of 32 bits, as on PyTorch's CPUs.
        odd = low if stored == _C.int32 else high
        return steps.clamp(low, high).nan_to_num(nan=odd).to(stored)

    def numbers(self, integers: _C.Tensor) -> _C.Tensor:
        """The numbers that integers stand for."""
        if self.axis is None and integers.dtype != _C.int32:
            return _C._dequantize_steps(integers, self.scale, self.zero_point)
        scale, zero = self.along(integers)
        if integers.dtype == _C.int32:
            return ((integers.double() - zero) * scale.double()).to(_C.float32)
        return (integers.to(_C.float32) - zero) * scale


def rebuilt_quantizer(
    integers: _C.Tensor, scheme: Any, scale: Any, zero_point: Any, axis: Any = None
) -> Quantizer | None:
    """The quantizer that a file describes for integers; None: it describes none."""
    named = DTYPES.get(integers.dtype)
    if named is None or not isinstance(scheme, QuantizationScheme):
        return None
    if axis is None:
        low, high = bounds(integers.dtype)
        fits = type(scale) is float and type(zero_point) is int and low <= zero_point <= high
        made = Quantizer(named, scale, zero_point)
    else:
        fits = type(axis) is int and 0 <= axis < integers.dim() and all(
            isinstance(t, _C.Tensor) and t.shape == (integers.shape[axis],)
            for t in (scale, zero_point)
        )  # fmt: skip
        fits = fits and scale.is_floating_point() and not zero_point.is_complex()
        made = Quantizer(named, scale, zero_point, axis)
    # PyTorch writes per_channel_affine for both schemes by channel.
    kinds = ("per_channel_affine", "per_channel_affine_float_qparams")
    known = scheme.name == "per_tensor_affine" if axis is None else scheme.name in kinds
    return made if fits and known else None


# Functions by their names without underscores: `relu_` is `relu` and `__getitem__` is `getitem`.
# What moves elements and keeps their meaning; by channel only the first kind, where each element of
# the result keeps its channel, and the last.
_VIEWS = frozenset(
    """view reshape permute transpose t flatten unsqueeze squeeze expand select narrow chunk split
    unbind index_select getitem movedim swapaxes roll flip view_as reshape_as expand_as unflatten
    repeat""".split()
)
_MOVES = _VIEWS | frozenset(
    """max_pool1d max_pool2d max_pool3d amax amin max min channel_shuffle pixel_shuffle
    pixel_unshuffle sort argsort topk as_strided""".split()
)
_COPIES = frozenset("clone contiguous detach cpu cuda pin_memory alias".split())
# What is computed in floats and rounded to the same steps again.
_COMPUTED = frozenset(
    """mean avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d
    adaptive_avg_pool3d relu relu6 hardtanh clamp threshold leaky_relu gelu std""".split()
)
# What has a range that is known, whose steps the integers share: the first number, and how many the
# range spans.
_BOUNDED = {
    **dict.fromkeys("sigmoid hardsigmoid".split(), (0, 1)),
    **dict.fromkeys("tanh".split(), (-1, 2)),
}
_QUESTIONS = frozenset(
    """size dim ndimension numel nelement stride storage_offset element_size is_contiguous data_ptr
    get_device is_floating_point is_complex untyped_storage len hash is_shared get
    version""".split()
)
_COMPARED = frozenset("eq ne lt le gt ge equal isclose allclose".split())


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

    def through_floats(self, compute: Callable[[_C.Tensor], _C.Tensor]) -> QuantizedTensor:
        """What a function makes of the numbers, in the same steps."""
        return quantized(compute(self.dequantize()), self._quantizer)

    def item(self) -> float:
        """The one number."""
        return self.dequantize().item()

    def to(self, *args: Any, **kwargs: Any) -> QuantizedTensor:
        """The tensor on another device."""
        moved = plain(self).to(*args, **kwargs)
        if moved.dtype != plain(self).dtype:
            raise RuntimeError("to: a quantized tensor has no other dtype; use dequantize()")
        return QuantizedTensor.of(moved, self._quantizer)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> str:  # type: ignore[override]
        """The name of its type, such as rushlight.quantized.QInt8Tensor."""
        if dtype is not None:
            raise NotImplementedError(_refusal("type"))
        package, _, name = str(self.dtype).rpartition(".")
        short = name.replace("quint", "QUInt").replace("qint", "QInt")
        return f"{package}.quantized.{short}Tensor"

    def type_as(self, other: _C.Tensor) -> QuantizedTensor:
        """The tensor itself, for another one of its dtype."""
        if other.dtype != self.dtype:
            raise NotImplementedError(_refusal("type_as"))
        return self

    def copy_(self, src: Any, non_blocking: bool = False) -> QuantizedTensor:
        """Numbers, brought to this tensor's steps; or another quantized tensor with its own."""
        if not isinstance(src, QuantizedTensor):
            plain(self).copy_(self._quantizer.integers(_C.as_tensor(src).to(_C.float32)))
            return self
        if src.dtype != self.dtype:
            raise RuntimeError(f"copy_: the source is {src.dtype}, the tensor is {self.dtype}")
        plain(self).copy_(plain(src))
        self._quantizer = src._quantizer
        return self

    def numpy(self, *, force: bool = False) -> Any:
        """NumPy has no quantized arrays."""
        raise TypeError("numpy: NumPy has no quantized arrays: use dequantize() or int_repr()")

    def tolist(self) -> Any:
        """As for all that computes with integers: which numbers are meant is not said."""
        raise NotImplementedError("tolist: use dequantize().tolist() or int_repr().tolist()")

    def __float__(self) -> float:
        return float(self.dequantize())

    def __int__(self) -> int:
        return int(self.dequantize())

    @property  # type: ignore[override]
    def data(self) -> QuantizedTensor:
        """The tensor over the same memory."""
        return QuantizedTensor.of(plain(self), self._quantizer)

    @data.setter
    def data(self, value: QuantizedTensor) -> None:
        if not isinstance(value, QuantizedTensor):
            raise RuntimeError(f"data: the tensor is quantized, the value is {value.dtype}")
        vars(_C.Tensor)["data"].__set__(self, plain(value))
        self._quantizer = value._quantizer

    def fill_(self, value: Any) -> QuantizedTensor:
        """One number everywhere."""
        return self.copy_(_C.full(tuple(self.shape), float(value)))

    def masked_fill(self, mask: _C.Tensor, value: Any) -> QuantizedTensor:
        """One number where the mask is true, in this tensor's steps."""
        step = self._by_tensor("masked_fill").integers(_C.full((), float(value)))
        return QuantizedTensor.of(plain(self).masked_fill(mask, step), self._quantizer)

    def masked_fill_(self, mask: _C.Tensor, value: Any) -> QuantizedTensor:
        """masked_fill, in place."""
        step = self._by_tensor("masked_fill_").integers(_C.full((), float(value)))
        plain(self).masked_fill_(mask, step)
        return self

    def __setitem__(self, index: Any, value: Any) -> None:
        """Numbers, brought to this tensor's steps."""
        steps = self._by_tensor("__setitem__")
        value = _C.as_tensor(_numbers(value)).to(plain(self).device, _C.float32)
        plain(self)[_integers(index)] = steps.integers(value)

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        text = repr(self.dequantize())
        cut = text.rfind("]") + 1 if "]" in text else text.rfind(")")
        q = self._quantizer
        values = text[:cut].split(", dtype=")[0].split(", size=")[0]
        parts = [f"size={tuple(self.shape)}", f"dtype={q.dtype}"]
        parts.append(f"quantization_scheme={q.scheme}")
        parts += [f"scale={q.scale}", f"zero_point={q.zero_point}"]
        if q.axis is not None:
            parts.append(f"axis={q.axis}")
        return join_suffixes(values, parts, len("tensor("))

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
        full = getattr(func, "__name__", "")
        name = full.strip("_").removesuffix("_with_indices")
        if name in _QUESTIONS or type(func).__name__ == "method-wrapper":
            return _C._disabled_torch_function_impl(func, types, args, kwargs)
        if name in ("cat", "concat", "stack"):
            return _joined(func, *args, **kwargs)
        direct = any(isinstance(a, QuantizedTensor) for a in (*args, *kwargs.values()))
        if name in _COMPARED and "out" not in kwargs and direct:  # not one in a list
            return func(*map(_numbers, args), **{k: _numbers(v) for k, v in kwargs.items()})
        first = args[0] if args else None
        if not isinstance(first, QuantizedTensor):
            raise NotImplementedError(_refusal(full))
        if name in _COPIES or (name in _MOVES and first._quantizer.axis is None):
            rest = [_integers(a) for a in args[1:]] if name.endswith("_as") else args[1:]
            return _wrapped(func(plain(first), *rest, **kwargs), first._quantizer)
        if name in _COMPUTED and first._quantizer.axis is None:
            if name == "relu":
                lowest = first._quantizer.zero_point
                result = QuantizedTensor.of(plain(first).clamp(min=lowest), first._quantizer)
            else:
                result = first.through_floats(lambda x: func(x, *args[1:], **kwargs))
            in_place = full.endswith("_") and not full.endswith("__")
            return first.copy_(result) if in_place else result
        if name in _VIEWS:
            rest = [_integers(a) for a in args[1:]] if name.endswith("_as") else args[1:]
            return _moved(full, lambda x: func(x, *rest, **kwargs), first)
        if name in _BOUNDED and full == name:
            start, span = _BOUNDED[name]
            low, high = bounds(storage_dtype(name, first.dtype))
            scale = span / (high - low + 1)
            steps = Quantizer(first.dtype, scale, low - round(start / scale))
            return quantized(func(first.dequantize(), *args[1:], **kwargs), steps)
        raise NotImplementedError(_refusal(full))


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


def _integers(value: Any) -> Any:
    return plain(value) if isinstance(value, QuantizedTensor) else value


def _wrapped(result: Any, quantizer: Quantizer) -> Any:
    if isinstance(result, _C.Tensor):
        is_index = result.dtype != storage_dtype("quantize", quantizer.dtype)
        return result if is_index else QuantizedTensor.of(result, quantizer)
    if isinstance(result, tuple | list):
        parts = [_wrapped(r, quantizer) for r in result]
        return type(result)(parts)
    return result


def _moved(name: str, move: Callable[[_C.Tensor], Any], x: QuantizedTensor) -> Any:
    """What a function that moves elements makes of a tensor quantized by channel. The numbers of
    the channels are moved as the elements are, which shows where the channels lie afterwards."""
    integers, steps = plain(x), x._quantizer
    assert steps.axis is not None
    along = [1] * integers.dim()
    along[steps.axis] = -1
    channels = _C.empty_like(integers, dtype=_C.int64)
    channels.copy_(_C.arange(integers.shape[steps.axis], device=integers.device).reshape(along))

    def kept(result: Any, places: Any) -> Any:
        if not isinstance(result, _C.Tensor):
            return type(result)(map(kept, result, places))
        return QuantizedTensor.of(result, _steps_at(name, places, steps))

    return kept(move(integers), move(channels))


def _steps_at(name: str, channels: _C.Tensor, steps: Quantizer) -> Quantizer:
    """The steps of elements of these channels: by channel where those differ along one dim."""
    if channels.numel() == 0:
        raise NotImplementedError(f"{name}: nothing is left of a tensor quantized by channel")
    moving = [d for d in range(channels.dim()) if bool(channels.diff(dim=d).any())]
    if len(moving) > 1:
        raise NotImplementedError(
            f"{name}: the channels of the result would lie along dims {moving}; a tensor is "
            "quantized along one: use dequantize()"
        )
    axis = moving[0] if moving else steps.axis or 0
    kept = steps.scale.numel() == 1 and channels.shape[axis : axis + 1] == (1,)
    alone = not moving and not kept
    if alone and steps.scheme.name == "per_channel_affine":  # all of one channel
        at = int(channels.flatten()[0])
        return Quantizer(steps.dtype, float(steps.scale[at]), int(steps.zero_point[at]))
    axis = min(axis, channels.dim() - 1)
    if axis < 0:
        raise NotImplementedError(f"{name}: one number has no channel, and no step between steps")
    line = channels
    for d in reversed([d for d in range(channels.dim()) if d != axis]):
        line = line.select(d, 0)
    return Quantizer(steps.dtype, steps.scale[line], steps.zero_point[line], axis)


def _joined(func: Callable[..., Any], tensors: Any, *args: Any, **kwargs: Any) -> QuantizedTensor:
    """cat and stack, in the steps of the first tensor."""
    first = tensors[0]
    if not all(isinstance(t, QuantizedTensor) and t._quantizer.axis is None for t in tensors):
        raise NotImplementedError(_refusal(getattr(func, "__name__", "cat")))
    same = first._quantizer
    if not all(t.dtype == same.dtype for t in tensors):
        kinds = ", ".join(str(t.dtype) for t in tensors)
        raise RuntimeError(f"{func.__name__}: the tensors must have one dtype, got {kinds}")
    parts = [plain(t) if t._quantizer == same else same.integers(t.dequantize()) for t in tensors]
    return QuantizedTensor.of(func(parts, *args, **kwargs), same)
