"""Products of float8 matrices that carry scales, and the names for how they are scaled."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, TypeVar

from rushlight import _C
from rushlight._C import Tensor, dtype

__all__ = ["ScalingType", "SwizzleType", "scaled_mm"]

_T = TypeVar("_T")


class ScalingType(enum.IntEnum):
    """How many elements of a matrix share a scale.

    Example:
        >>> F.ScalingType.RowWise.value
        1
    """

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(enum.IntEnum):
    """In which order scales lie in memory.

    Example:
        >>> F.SwizzleType.NO_SWIZZLE.value
        0
    """

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


def scaled_mm(mat_a: Tensor, mat_b: Tensor, scale_a: Tensor | list[Tensor],
              scale_recipe_a: ScalingType | list[ScalingType], scale_b: Tensor | list[Tensor],
              scale_recipe_b: ScalingType | list[ScalingType],
              swizzle_a: SwizzleType | list[SwizzleType] | None = None,
              swizzle_b: SwizzleType | list[SwizzleType] | None = None, bias: Tensor | None = None,
              output_dtype: dtype | None = _C.bfloat16, contraction_dim: Sequence[int] = (),
              use_fast_accum: bool = False) -> Tensor:  # fmt: skip
    """mat_a @ mat_b of float8 matrices, times their scales.

    Scales of whole matrices (TensorWise) and of rows of mat_a and columns of mat_b (RowWise) are
    there; those of blocks are not.

    Arguments:
        mat_a: (n, k), float8.
        mat_b: (k, m), float8.
        scale_a: float32, one number, or (n, 1).
        scale_recipe_a: which of the two.
        scale_b: float32, one number, or (1, m).
        scale_recipe_b: as scale_recipe_a.
        swizzle_a, swizzle_b: only None and NO_SWIZZLE.
        bias: (m,), added to each row.
        output_dtype: of the result; None is that of mat_a.
        contraction_dim: which dims are summed over; only () or the usual ones.
        use_fast_accum: sum less precisely where the GPU has that.

    Raises: ValueError for scales that do not fit, NotImplementedError for those of blocks.

    Example:
        >>> a = rl.ones(16, 16).to(rl.float8_e4m3fn)
        >>> whole = F.ScalingType.TensorWise
        >>> F.scaled_mm(a, a.t(), rl.tensor(0.5), whole, rl.tensor(2.0), whole)[0, :2]
        tensor([16., 16.], dtype=rushlight.bfloat16)
        >>> scale = rl.tensor(0.5)
        >>> F.scaled_mm(a, a.t(), scale, whole, scale, whole, output_dtype=rl.float32)[0, :2]
        tensor([4., 4.])
    """
    return _scaled_mm_v2(mat_a, mat_b, _listed(scale_a), _listed(scale_recipe_a),
                         _listed(swizzle_a), _listed(scale_b), _listed(scale_recipe_b),
                         _listed(swizzle_b), bias, output_dtype, contraction_dim,
                         use_fast_accum)  # fmt: skip


def _listed(x: _T | list[_T] | None) -> list[_T]:
    return [] if x is None else list(x) if isinstance(x, list | tuple) else [x]


def _scaled_mm_v2(self: Tensor, mat2: Tensor, scale_a: Sequence[Tensor], recipe_a: Sequence[Any],
                  swizzle_a: Sequence[Any], scale_b: Sequence[Tensor], recipe_b: Sequence[Any],
                  swizzle_b: Sequence[Any], bias: Tensor | None = None,
                  out_dtype: dtype | None = None, contraction_dim: Sequence[int] = (),
                  use_fast_accum: bool = False, *,
                  out: Tensor | None = None) -> Tensor:  # fmt: skip
    """scaled_mm, where all that describes a matrix is a list."""
    kinds = [ScalingType(r) for r in (*recipe_a, *recipe_b)]
    if any(k > ScalingType.RowWise for k in kinds):
        raise NotImplementedError(
            f"scaled_mm: scales of blocks ({', '.join(k.name for k in kinds)}) are not there; "
            "TensorWise and RowWise are"
        )
    if any(SwizzleType(s) != SwizzleType.NO_SWIZZLE for s in (*swizzle_a, *swizzle_b)):
        raise NotImplementedError("scaled_mm: scales must lie in their plain order, NO_SWIZZLE")
    if list(contraction_dim) not in ([], [1, 0], [-1, -2], [-1, 0], [1, -2]):
        raise NotImplementedError(f"scaled_mm: cannot sum over dims {list(contraction_dim)}")
    if len(scale_a) != 1 or len(scale_b) != 1 or len(kinds) != 2 or kinds[0] != kinds[1]:
        raise ValueError(
            "scaled_mm: expects one scale for each matrix, both TensorWise or both RowWise, got "
            f"{len(scale_a)} and {len(scale_b)} scales: {', '.join(k.name for k in kinds)}"
        )
    a, b = scale_a[0], scale_b[0]
    single = a.numel() == b.numel() == 1
    if single != (kinds[0] == ScalingType.TensorWise) and self.shape[0] * mat2.shape[-1] != 1:
        raise ValueError(
            f"scaled_mm: scales of shapes {list(a.shape)} and {list(b.shape)} are not "
            f"{kinds[0].name} for matrices of {list(self.shape)} and {list(mat2.shape)}"
        )
    options = {} if out is None else {"out": out}
    return _C._scaled_mm(self, mat2, a, b, bias, None, out_dtype, use_fast_accum, **options)
