"""ReduceOp: how tensors of several processes become one."""

from __future__ import annotations

import enum
from typing import Any

import rushlight

__all__ = ["BuiltinCommHookType", "ReduceOp", "reduce_op"]


ReduceOp = enum.Enum(
    "ReduceOp", "SUM AVG PRODUCT MIN MAX BAND BOR BXOR PREMUL_SUM", start=0, module=__name__
)
ReduceOp.__doc__ = """How tensors of several processes become one.

SUM, AVG (the mean), PRODUCT, MIN and MAX; BAND, BOR and BXOR of bits, between CPUs; PREMUL_SUM,
the sum of tensors that each rank multiplies by a factor before.

Example:
    >>> from rushlight import distributed as dist
    >>> def reduced(rank, op):
    ...     x = rl.tensor([rank + 1, 6])
    ...     dist.all_reduce(x, op)
    ...     return x
    >>> dist.simulate(2, reduced, dist.ReduceOp.PRODUCT)[0]
    tensor([ 2, 36])
    >>> dist.simulate(2, reduced, dist.ReduceOp.BXOR)[0]
    tensor([3, 0])
"""


class BuiltinCommHookType(enum.Enum):
    """Communication hooks of DistributedDataParallel that have a name.

    ``ALLREDUCE`` averages gradients as they are; ``FP16_COMPRESS`` sends them as float16.

    Example:
        >>> from rushlight import distributed as dist
        >>> [kind.name for kind in dist.BuiltinCommHookType]
        ['ALLREDUCE', 'FP16_COMPRESS']
    """

    ALLREDUCE = 0
    FP16_COMPRESS = 1


reduce_op = ReduceOp
ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]


class PremulSum:
    """The sum of tensors that each rank multiplies by a factor of its own before."""

    def __init__(self, factor: Any) -> None:
        self.factor = factor

    def __repr__(self) -> str:
        return f"PREMUL_SUM({self.factor!r})"


def _make_nccl_premul_sum(factor: Any) -> Any:
    """PREMUL_SUM with a factor: a number, or a tensor of one element."""
    if not isinstance(factor, (int, float, rushlight.Tensor)):
        raise TypeError(f"PREMUL_SUM: the factor must be a number or a tensor, got {factor!r}")
    return PremulSum(factor)


def reduction(what: str, op: Any, tensors: list[Any], in_place: bool) -> tuple[int, list[Any]]:
    """The core's number of a reduction, and the tensors to reduce."""
    if isinstance(op, PremulSum):
        with rushlight.no_grad():
            if in_place:
                return 0, [t.mul_(op.factor) for t in tensors]
            return 0, [t * op.factor for t in tensors]
    if op is ReduceOp.PREMUL_SUM:
        raise ValueError(
            f"{what}: PREMUL_SUM needs a factor: pass distributed._make_nccl_premul_sum(factor)"
        )
    if not isinstance(op, (ReduceOp, int)):
        raise TypeError(f"{what}: op must be a ReduceOp, got {op!r}")
    return ReduceOp(op).value, tensors
