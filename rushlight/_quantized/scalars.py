"""A quantized tensor plus or times a number: its integers stay, and mean other numbers."""

from __future__ import annotations

from rushlight import _C
from rushlight._quantized.schemes import bounds
from rushlight._quantized.tensor import QuantizedTensor, plain, quantized


def plus_number(x: QuantizedTensor, number: float) -> QuantizedTensor:
    """x + number, in whole steps: the zero point moves. Where it would leave the integers, the
    steps become larger instead."""
    q, integers = x._by_tensor("add_scalar"), plain(x)
    low, high = bounds(integers.dtype)
    zero = q.zero_point - round(number / q.scale)
    if low <= zero <= high:
        return QuantizedTensor.of(integers.clone(), q._replace(zero_point=zero))
    end, reach = (low, high - zero) if zero < low else (high, zero - low)
    numbers = (integers.to(_C.float32) - zero) * q.scale
    return quantized(numbers, q._replace(scale=reach / (high - low) * q.scale, zero_point=end))


def times_number(x: QuantizedTensor, number: float) -> QuantizedTensor:
    """x * number: the scale changes, and by a negative number the integers are mirrored."""
    q, integers = x._by_tensor("mul_scalar"), plain(x)
    if number == 0:
        return QuantizedTensor.of(_C.zeros_like(integers), q._replace(scale=1.0, zero_point=0))
    scale = q.scale * abs(number)
    if number > 0:
        return QuantizedTensor.of(integers.clone(), q._replace(scale=scale))
    low, high = bounds(integers.dtype)
    zero = high - (q.zero_point - low)
    mirrored = (low + high - integers.to(_C.int64)).to(integers.dtype)
    return QuantizedTensor.of(mirrored, q._replace(scale=scale, zero_point=zero))
