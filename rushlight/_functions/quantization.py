"""Quantizing, and what pretends to in training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import _C, Tensor
from rushlight._autocast import autocast_policy
from rushlight._quantized.schemes import SCHEMES, QuantizationScheme, bounds, storage_dtype

__all__ = [
    "_choose_qparams_per_tensor",
    "dequantize",
    "fake_quantize_per_channel_affine",
    "fake_quantize_per_tensor_affine",
    "int_repr",
    "per_channel_affine",
    "per_channel_affine_float_qparams",
    "per_channel_symmetric",
    "per_tensor_affine",
    "per_tensor_symmetric",
    "q_per_channel_axis",
    "q_per_channel_scales",
    "q_per_channel_zero_points",
    "q_scale",
    "q_zero_point",
    "quantize_per_channel",
    "quantize_per_tensor",
    "quantize_per_tensor_dynamic",
]

per_tensor_affine = SCHEMES["per_tensor_affine"]
per_channel_affine = SCHEMES["per_channel_affine"]
per_tensor_symmetric = SCHEMES["per_tensor_symmetric"]
per_channel_symmetric = SCHEMES["per_channel_symmetric"]
per_channel_affine_float_qparams = SCHEMES["per_channel_affine_float_qparams"]


def _check_float(name: str, x: Tensor) -> None:
    if x.is_quantized:
        raise NotImplementedError(f"{name}: the tensor is quantized already, as {x.dtype}")
    if x.dtype != _C.float32:
        raise RuntimeError(f"{name}: quantizes float32 tensors only, got {x.dtype}: use float()")


def _whole(name: str, what: str, value: Any) -> int:
    """An int, or a tensor of one, that stands for an integer: nothing is cut off."""
    is_tensor = isinstance(value, Tensor)
    if isinstance(value, bool | float) or (is_tensor and value.is_floating_point()):
        kind = value.dtype if is_tensor else type(value).__name__
        raise TypeError(f"{name}: {what} must be an integer, got {kind}")
    return int(value)


def quantize_per_tensor(
    input: Tensor | Sequence[Tensor],
    scale: float | Tensor,
    zero_point: int | Tensor,
    dtype: Any,
) -> Tensor | tuple[Any, ...]:
    """input as integers of dtype (quint8, qint8, qint32): round(input / scale) + zero_point.

    Arguments:
        input: a float32 tensor, or several of them.
        scale: the size of a step; for several tensors a tensor of them.
        zero_point: the integer that stands for 0.
        dtype: rl.quint8, rl.qint8 or rl.qint32.

    Example:
        >>> x = rl.quantize_per_tensor(rl.tensor([-1.0, 0.26, 2.0]), 0.5, 10, rl.quint8)
        >>> x.int_repr(), x.dequantize()
        (tensor([ 8, 11, 14], dtype=rushlight.uint8), tensor([-1.0000,  0.5000,  2.0000]))
    """
    from rushlight._quantized.tensor import Quantizer, quantized

    if not isinstance(input, Tensor):
        given: Any = (input, scale, zero_point)
        if len({len(part) for part in given}) > 1:
            raise RuntimeError(
                "quantize_per_tensor: a list of tensors needs a scale and a zero point for each; "
                f"got {len(given[0])} tensors, {len(given[1])} scales, {len(given[2])} zero points"
            )
        every = zip(*given, strict=True)
        return tuple(quantize_per_tensor(x, s, z, dtype) for x, s, z in every)
    _check_float("quantize_per_tensor", input)
    low, high = bounds(storage_dtype("quantize_per_tensor", dtype))
    scale, zero_point = float(scale), _whole("quantize_per_tensor", "zero_point", zero_point)
    if not low <= zero_point <= high:
        raise RuntimeError(
            f"quantize_per_tensor: zero_point must be from {low} to {high} for {dtype}, got "
            f"{zero_point}"
        )
    return quantized(input.detach(), Quantizer(dtype, scale, zero_point))


def quantize_per_channel(
    input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, dtype: Any
) -> Tensor:
    """As quantize_per_tensor, with a scale and a zero point for each index along axis.

    Zero points may lie between integers: they are floats then.

    Arguments:
        input: a float32 tensor.
        scales, zero_points: one number per index of axis.
        axis: the dim of the channels.
        dtype: rl.quint8, rl.qint8 or rl.qint32.

    Example:
        >>> scales, zeros = rl.tensor([0.5, 0.1]), rl.tensor([0, 0])
        >>> rl.quantize_per_channel(rl.ones(2, 1), scales, zeros, 0, rl.qint8).int_repr()
        tensor([[ 2],
                [10]], dtype=rushlight.int8)
    """
    from rushlight._quantized.tensor import Quantizer, quantized

    _check_float("quantize_per_channel", input)
    low, high = bounds(storage_dtype("quantize_per_channel", dtype))
    if not isinstance(scales, Tensor) or not isinstance(zero_points, Tensor):
        kinds = f"{type(scales).__name__} and {type(zero_points).__name__}"
        raise TypeError(f"quantize_per_channel: scales and zero points must be tensors: {kinds}")
    if not scales.is_floating_point():
        raise RuntimeError(f"quantize_per_channel: scales must be floating, got {scales.dtype}")
    if not 0 <= axis < input.dim():
        raise RuntimeError(
            f"quantize_per_channel: axis must be from 0 to {input.dim() - 1}, got {axis}"
        )
    if scales.shape != (input.shape[axis],) or zero_points.shape != scales.shape:
        raise RuntimeError(
            f"quantize_per_channel: needs {input.shape[axis]} scales and zero points, one for each "
            f"index along dim {axis}; got {tuple(scales.shape)} and {tuple(zero_points.shape)}"
        )
    scales, zero_points = scales.detach(), zero_points.detach()
    if zero_points.is_floating_point():
        quantizer = Quantizer(dtype, scales.float(), zero_points.float(), axis)
        return quantized(input.detach(), quantizer)
    if bool(((zero_points < low) | (zero_points > high)).any()):
        raise RuntimeError(
            f"quantize_per_channel: zero_points must be from {low} to {high} for {dtype}, got "
            f"{zero_points.min().item()} to {zero_points.max().item()}"
        )
    return quantized(input.detach(), Quantizer(dtype, scales.double(), zero_points.long(), axis))


def _choose_qparams_per_tensor(self: Tensor, reduce_range: bool = False) -> tuple[float, int]:
    """Scale and zero point for the range of the tensor at hand, in 8 bits (7: reduce_range)."""
    low, high = (float(v) for v in self.aminmax()) if self.numel() else (0.0, 0.0)
    return choose_range(low, high, 0, 127 if reduce_range else 255)


# What PyTorch takes for the smallest scale that products of integers can be brought back by.
_SMALLEST_SCALE = 6.0999998822808266e-05


def choose_ranges(
    low: Tensor, high: Tensor, least: int, most: int, symmetric: bool = False
) -> tuple[Tensor, Tensor]:
    """Scales and zero points for numbers from low to high: 0 is always one of the steps."""
    low, high = low.double().clamp(max=0), high.double().clamp(min=0)
    # Numbers of one sign need no steps on the other side.
    mirrored = (low < 0) & (high > 0) & symmetric
    half = (most - least) // 2
    step = _C.maximum(low / -(half + 1), high / half)
    low, high = _C.where(mirrored, step * -(half + 1), low), _C.where(mirrored, step * half, high)
    scale = (high - low) / (most - least)
    scale = _C.where((scale == 0) | (1 / scale).isinf(), 0.1, scale)
    # Whichever end gives the smaller error is where the zero point is counted from.
    low_error, high_error = abs(least) + (low / scale).abs(), abs(most) + (high / scale).abs()
    start = _C.where(low_error < high_error, least - low / scale, most - high / scale)
    start = _C.where(mirrored, (least + most + 1) // 2, start)
    return scale.clamp(min=_SMALLEST_SCALE), start.round().clamp(least, most).to(_C.int32)


def choose_range(low: float, high: float, least: int, most: int) -> tuple[float, int]:
    """The same for one range."""
    first, last = (_C.tensor([x], dtype=_C.float64) for x in (low, high))
    scale, zero = choose_ranges(first, last, least, most)
    return float(scale), int(zero)


def quantize_per_tensor_dynamic(
    input: Tensor, dtype: Any, reduce_range: bool
) -> Tensor | tuple[Any, ...]:
    """quantize_per_tensor with the scale and zero point that the numbers at hand need.

    Arguments:
        input: a float32 tensor.
        dtype: rl.quint8 or rl.qint8; rl.float16 gives input in half precision.
        reduce_range: use 7 bits.

    Example:
        >>> x = rl.quantize_per_tensor_dynamic(rl.tensor([-1.0, 1.55]), rl.quint8, False)
        >>> round(x.q_scale(), 4), x.q_zero_point()
        (0.01, 100)
    """
    _check_float("quantize_per_tensor_dynamic", input)
    if dtype == _C.float16:
        return input.half()
    stored = storage_dtype("quantize_per_tensor_dynamic", dtype)
    if stored == _C.int32:
        raise RuntimeError("quantize_per_tensor_dynamic: dtype must be quint8 or qint8, got qint32")
    low, high = bounds(stored)
    if reduce_range:
        low, high = (low // 2, high // 2) if low else (0, 127)
    ends = [float(v) for v in input.aminmax()] if input.numel() else [0.0, 0.0]
    scale, zero_point = choose_range(ends[0], ends[1], low, high)
    return quantize_per_tensor(input, scale, zero_point, dtype)


def dequantize(input: Tensor | Sequence[Tensor]) -> Tensor | tuple[Any, ...]:
    """The numbers that a quantized tensor stands for, in float32; of any other, its float32.

    Arguments:
        input: a tensor, or several of them.

    Example:
        >>> rl.dequantize(rl.quantize_per_tensor(rl.tensor([0.9]), 0.5, 0, rl.qint8))
        tensor([1.])
    """
    if not isinstance(input, Tensor):
        return tuple(dequantize(x) for x in input)
    return input.dequantize() if input.is_quantized else input.to(_C.float32)


def _asked(name: str, input: Tensor) -> Any:
    if not input.is_quantized:
        raise NotImplementedError(f"{name}: the tensor is not quantized")
    return getattr(input, name)()


def qscheme(input: Tensor) -> QuantizationScheme:
    """How the tensor is quantized, such as per_tensor_affine."""
    return _asked("qscheme", input)


def int_repr(input: Tensor) -> Tensor:
    """The integers of a quantized tensor.

    Arguments:
        input: a quantized tensor.

    Example:
        >>> rl.int_repr(rl.quantize_per_tensor(rl.tensor([1.5]), 0.5, 0, rl.qint8))
        tensor([3], dtype=rushlight.int8)
    """
    return _asked("int_repr", input)


def q_scale(input: Tensor) -> float:
    """The scale of a tensor that was quantized as a whole.

    Arguments:
        input: a quantized tensor.

    Example:
        >>> rl.q_scale(rl.quantize_per_tensor(rl.tensor([1.5]), 0.5, 0, rl.qint8))
        0.5
    """
    return _asked("q_scale", input)


def q_zero_point(input: Tensor) -> int:
    """The zero point of a tensor that was quantized as a whole.

    Arguments:
        input: a quantized tensor.

    Example:
        >>> rl.q_zero_point(rl.quantize_per_tensor(rl.tensor([1.5]), 0.5, 7, rl.qint8))
        7
    """
    return _asked("q_zero_point", input)


def q_per_channel_scales(input: Tensor) -> Tensor:
    """The scales of a tensor that was quantized by channels.

    Arguments:
        input: what `quantize_per_channel` gave.

    Example:
        >>> scales, zeros = rl.tensor([0.5]), rl.tensor([0])
        >>> x = rl.quantize_per_channel(rl.ones(1, 1), scales, zeros, 0, rl.qint8)
        >>> rl.q_per_channel_scales(x)
        tensor([0.5000], dtype=rushlight.float64)
    """
    return _asked("q_per_channel_scales", input)


def q_per_channel_zero_points(input: Tensor) -> Tensor:
    """The zero points of a tensor that was quantized by channels.

    Arguments:
        input: what `quantize_per_channel` gave.

    Example:
        >>> scales, zeros = rl.tensor([0.5]), rl.tensor([3])
        >>> x = rl.quantize_per_channel(rl.ones(1, 1), scales, zeros, 0, rl.qint8)
        >>> rl.q_per_channel_zero_points(x)
        tensor([3])
    """
    return _asked("q_per_channel_zero_points", input)


def q_per_channel_axis(input: Tensor) -> int:
    """The dim of the channels of a tensor that was quantized by them.

    Arguments:
        input: what `quantize_per_channel` gave.

    Example:
        >>> scales, zeros = rl.tensor([0.5]), rl.tensor([0])
        >>> x = rl.quantize_per_channel(rl.ones(1, 1), scales, zeros, 1, rl.qint8)
        >>> rl.q_per_channel_axis(x)
        1
    """
    return _asked("q_per_channel_axis", input)


def _check_fake(name: str, input: Tensor, quant_min: int, quant_max: int) -> None:
    if not input.is_floating_point() or input.itemsize == 1:
        raise NotImplementedError(f"{name}: expects a floating tensor, got {input.dtype}")
    for what, value in (("quant_min", quant_min), ("quant_max", quant_max)):
        _whole(name, what, value)
    if quant_min > quant_max:
        raise RuntimeError(
            f"{name}: quant_min must not be larger than quant_max, got {quant_min} and {quant_max}"
        )


def _pretended(input: Tensor, scale: Any, zero: Any, low: int, high: int) -> Tensor:
    """Rounded to steps; the gradient passes where nothing was cut off."""
    wide = input.detach()
    steps = wide * (1.0 / scale)
    # A zero between two steps is part of what is rounded.
    is_whole = not isinstance(zero, Tensor) or not zero.is_floating_point()
    steps = steps.round() + zero if is_whole else (steps + zero).round()
    # A NaN is the smallest step, as in PyTorch.
    inside = (steps >= low) & (steps <= high)
    values = ((steps.nan_to_num(nan=low).clamp(low, high) - zero) * scale).to(input.dtype)
    if not (input.requires_grad and _C.is_grad_enabled()):
        return values
    # The values, with the gradient of the input where it is inside.
    through = _C.where(inside, input, input.detach())
    return values + (through - through.detach())


@autocast_policy(cpu="float32")
def fake_quantize_per_tensor_affine(
    input: Tensor,
    scale: float | Tensor,
    zero_point: int | Tensor,
    quant_min: int,
    quant_max: int,
) -> Tensor:
    """input rounded to the steps of quantize_per_tensor, as floats; the gradient passes where
    input lies within quant_min and quant_max.

    Arguments:
        input: a floating tensor.
        scale: the size of a step.
        zero_point: the integer that stands for 0.
        quant_min, quant_max: the first and the last step.

    Example:
        >>> x = rl.tensor([0.6, 9.0], requires_grad=True)
        >>> y = rl.fake_quantize_per_tensor_affine(x, 0.5, 0, 0, 7)
        >>> y.sum().backward()
        >>> y.detach(), x.grad
        (tensor([0.5000, 3.5000]), tensor([1., 0.]))
    """
    name = "fake_quantize_per_tensor_affine"
    _check_fake(name, input, quant_min, quant_max)
    is_tensor = isinstance(zero_point, Tensor)
    zero: Any = zero_point if is_tensor else _whole(name, "zero_point", zero_point)
    if not isinstance(zero, Tensor) and not quant_min <= zero <= quant_max:
        raise RuntimeError(
            f"{name}: zero_point must be from quant_min, {quant_min}, to quant_max, {quant_max}; "
            f"got {zero}"
        )
    if isinstance(scale, Tensor):
        scale = scale.detach().to(_C.float32)
    else:
        scale = _C.tensor(scale, dtype=_C.float32, device=input.device)
    return _pretended(input, scale, zero, quant_min, quant_max)


def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """As fake_quantize_per_tensor_affine, with a scale and a zero point for each index of axis.

    Arguments:
        input: a floating tensor.
        scale, zero_point: one number per index of axis.
        axis: the dim of the channels.
        quant_min, quant_max: the first and the last step.

    Example:
        >>> scale, zero = rl.tensor([1.0, 0.5]), rl.tensor([0, 0], dtype=rl.int32)
        >>> rl.fake_quantize_per_channel_affine(rl.full((2, 1), 1.3), scale, zero, 0, 0, 255)
        tensor([[1.0000],
                [1.5000]])
    """
    name = "fake_quantize_per_channel_affine"
    _check_fake(name, input, quant_min, quant_max)
    if scale.dtype not in (_C.float32, _C.bfloat16):
        raise RuntimeError(f"{name}: scale must be float32 or bfloat16, got {scale.dtype}")
    if zero_point.dtype not in (_C.int32, _C.float32, _C.float16):
        raise RuntimeError(f"{name}: zero_point must be int32, float32 or float16, got "
                           f"{zero_point.dtype}")  # fmt: skip
    if not 0 <= axis < input.dim():
        raise RuntimeError(f"{name}: axis must be from 0 to {input.dim() - 1}, got {axis}")
    if scale.shape != (input.shape[axis],) or zero_point.shape != scale.shape:
        raise RuntimeError(
            f"{name}: needs {input.shape[axis]} scales and zero points, one for each index along "
            f"dim {axis}; got {tuple(scale.shape)} and {tuple(zero_point.shape)}"
        )
    outside = (zero_point < quant_min) | (zero_point > quant_max)
    if not zero_point.is_floating_point() and bool(outside.any()):
        raise RuntimeError(
            f"{name}: zero points must be from quant_min, {quant_min}, to quant_max, {quant_max}; "
            f"got {zero_point.min().item()} to {zero_point.max().item()}"
        )
    shape = [1] * input.dim()
    shape[axis] = -1
    scales, zeros = scale.detach().reshape(shape), zero_point.detach().reshape(shape)
    return _pretended(input, scales, zeros, quant_min, quant_max)
