"""Linear layers whose weights are integers of 8 or 4 bits with a scale, for decoding: a model that
writes its text word by word waits for its weights to be read, and these are shorter.

    rushlight.ao.weight_only.quantize_weights_(model, bits=8)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight import _C, Tensor
from rushlight._functions.low_bits import (
    _convert_weight_to_int4pack,
    _convert_weight_to_int4pack_for_cpu,
    _weight_int4pack_mm,
    unpack_columns,
    unpack_tiles,
)
from rushlight.ao._exchange import StoredLinear, copied_bias, exchange_linears, rows_of
from rushlight.nn import Linear, Module

__all__ = ["Int4WeightOnlyLinear", "Int8WeightOnlyLinear", "quantize_weights_"]

_INNER_K_TILES = (8, 4, 2)


class _WeightOnlyLinear(StoredLinear):
    def _product(self, rows: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, input: Tensor) -> Tensor:
        rows = rows_of(self, input)
        out = self._product(rows).reshape(*input.shape[:-1], self.out_features)
        return out if self.bias is None else out + self.bias


class Int8WeightOnlyLinear(_WeightOnlyLinear):
    """A Linear whose weight is int8, with one scale for each of its rows."""

    def __init__(self, weight: Tensor, scales: Tensor, bias: Tensor | None = None) -> None:
        super().__init__(weight.shape, bias, weight=weight, scales=scales)

    @classmethod
    def from_float(cls, linear: Linear) -> Int8WeightOnlyLinear:
        """The layer with the weights of a Linear, rounded to 255 steps from -127 to 127."""
        weight = linear.weight.detach()
        wide = weight.float()
        scales = (wide.abs().amax(1) / 127).clamp(min=1e-12).to(weight.dtype)
        steps = (wide / scales.float().unsqueeze(1)).round().clamp(-127, 127)
        return cls(steps.to(_C.int8), scales, copied_bias(linear))

    def _product(self, rows: Tensor) -> Tensor:
        return _C._weight_int8pack_mm(rows, self.weight, self.scales)


class Int4WeightOnlyLinear(_WeightOnlyLinear):
    """A Linear whose weights have four bits, with a scale and a zero for each group of columns.

    The weight is packed for the device that it is on, and packed anew when it moves. Rows come in
    multiples of 16, columns in multiples of the group size.
    """

    weight: Tensor  # uint8 on the CPU, int32 in tiles on a GPU
    scales_and_zeros: Tensor

    def __init__(
        self,
        weight: Tensor,
        scales_and_zeros: Tensor,
        group_size: int,
        bias: Tensor | None = None,
    ) -> None:
        groups, rows, _ = scales_and_zeros.shape
        sizes = (rows, groups * group_size)
        super().__init__(sizes, bias, weight=weight, scales_and_zeros=scales_and_zeros)
        self.group_size = group_size

    @staticmethod
    def fits(linear: Linear, group_size: int) -> bool:
        """Whether a Linear has the sizes that are needed."""
        return linear.out_features % 16 == 0 and linear.in_features % group_size == 0

    @classmethod
    def from_float(cls, linear: Linear, group_size: int = 128) -> Int4WeightOnlyLinear:
        """The layer with the weights of a Linear: each group in 15 steps from its smallest number
        to its largest."""
        if group_size not in (32, 64, 128, 256):
            raise ValueError(
                f"Int4WeightOnlyLinear: the group size must be 32, 64, 128 or 256, got {group_size}"
            )
        if not cls.fits(linear, group_size):
            raise ValueError(
                "Int4WeightOnlyLinear: needs out_features in multiples of 16 and in_features in "
                f"multiples of the group size, {group_size}; got {linear.out_features} and "
                f"{linear.in_features}"
            )
        weight = linear.weight.detach()
        rows, columns = weight.shape
        groups = weight.float().reshape(rows, columns // group_size, group_size)
        low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
        scales = ((high - low) / 15).clamp(min=1e-6).to(weight.dtype)
        steps = ((groups - low) / scales.float()).round().clamp(0, 15).to(_C.int32)
        zeros = (low + scales.float() * 8).to(weight.dtype)
        pairs = _C.cat([scales, zeros], -1).transpose(0, 1).contiguous()
        return cls(_packed(steps.reshape(rows, columns)), pairs, group_size, copied_bias(linear))

    def _product(self, rows: Tensor) -> Tensor:
        if self.weight.dim() == 4:
            return _weight_int4pack_mm(rows, self.weight, self.group_size, self.scales_and_zeros)
        return _C._weight_int4pack_mm_for_cpu(
            rows, self.weight, self.group_size, self.scales_and_zeros
        )

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Any:
        super()._apply(fn, recurse)
        self.weight = _repacked(self.weight)
        return self

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        key = prefix + "weight"
        if key in state_dict:
            state_dict[key] = _repacked(state_dict[key].to(self.weight.device))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, group_size={self.group_size}"


def _packed(numbers: Tensor) -> Tensor:
    """int32 numbers of four bits, packed for their device."""
    if not numbers.is_cuda:
        return _convert_weight_to_int4pack_for_cpu(numbers, 2)
    bytes_ = (numbers[:, ::2] << 4 | numbers[:, 1::2]).to(_C.uint8)
    tiles = next(t for t in _INNER_K_TILES if numbers.shape[1] % (16 * t) == 0)
    return _convert_weight_to_int4pack(bytes_, tiles)


def _repacked(weight: Tensor) -> Tensor:
    """A packed weight as its device takes it."""
    if weight.is_meta or weight.is_cuda == (weight.dim() == 4):
        return weight
    if weight.dim() == 2:
        return _packed(unpack_columns(weight).to(_C.int32))
    bytes_ = unpack_tiles(weight).to(_C.int32)
    return _packed(_C.stack([bytes_ >> 4, bytes_ & 15], -1).reshape(bytes_.shape[0], -1))


def quantize_weights_(
    model: Module,
    bits: int = 8,
    group_size: int = 128,
    filter_fn: Callable[[Module, str], bool] | None = None,
) -> Module:
    """Exchanges the Linear layers of a model for layers with weights of 8 or 4 bits.

    filter_fn(layer, name) says which; all, without it. With 4 bits, layers whose sizes do not fit
    the group size stay as they are.
    """
    if bits not in (4, 8):
        raise ValueError(f"quantize_weights_: bits must be 4 or 8, got {bits}")

    def make(layer: Linear) -> Module | None:
        if bits == 8:
            return Int8WeightOnlyLinear.from_float(layer)
        if not Int4WeightOnlyLinear.fits(layer, group_size):
            return None
        return Int4WeightOnlyLinear.from_float(layer, group_size)

    return exchange_linears(model, make, filter_fn)
