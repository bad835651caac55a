"""How a tensor gets from one placement along a mesh dim to another, with gradients.

Note [Gradients of placements]
The gradient of a sharded tensor is sharded alike. That of a replicated tensor is whole, and the
same on every rank; and so is that of a partial one, since every rank's part goes into the sum. So
each move has a fixed backward, and no gradient needs a record of how it lies:

    Shard -> Replicate     gather               backward: the own part
    Replicate -> Shard     the own part                   gather
    Partial -> Replicate   all_reduce                     as it is
    Partial -> Shard       reduce_scatter                 gather
    Replicate -> Partial   one rank keeps it              as it is

An op that uses a replicated input for a result that is not replicated makes only a part of that
input's gradient on each rank; `gradient_is_partial` adds the parts in backward.
"""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import distributed as dist
from rushlight.autograd import Function
from rushlight.distributed._placements import Partial, Placement, Replicate, Shard, part_sizes

_REDUCTIONS = {
    "sum": dist.ReduceOp.SUM,
    "avg": dist.ReduceOp.AVG,
    "max": dist.ReduceOp.MAX,
    "min": dist.ReduceOp.MIN,
    "product": dist.ReduceOp.PRODUCT,
}


def own_part(tensor: Any, dim: int, group: Any) -> Any:
    """This rank's part along a dim."""
    sizes = part_sizes(tensor.shape[dim], group.size())
    first = sum(sizes[: group.rank()])
    return tensor.narrow(dim, first, sizes[group.rank()]).contiguous()


def _padded(tensor, dim, length):
    missing = length - tensor.shape[dim]
    if missing == 0:
        return tensor.contiguous()
    shape = list(tensor.shape)
    shape[dim] = missing
    filling = rushlight.zeros(shape, dtype=tensor.dtype, device=tensor.device)
    return rushlight.cat([tensor, filling], dim)


def gather(tensor: Any, dim: int, total: int, group: Any) -> Any:
    """The whole tensor, of all ranks' parts along a dim."""
    sizes = part_sizes(total, group.size())
    mine = _padded(tensor, dim, sizes[0])
    parts = [rushlight.empty_like(mine) for _ in sizes]
    dist.all_gather(parts, mine, group)
    return rushlight.cat([p.narrow(dim, 0, n) for p, n in zip(parts, sizes, strict=True)], dim)


def reduce_scatter(tensor: Any, dim: int, op: Any, group: Any) -> Any:
    """This rank's part of the sum."""
    sizes = part_sizes(tensor.shape[dim], group.size())
    parts = [_padded(p, dim, sizes[0]) for p in tensor.split(sizes, dim)]
    out = rushlight.empty_like(parts[0])
    dist.reduce_scatter(out, parts, op, group)
    return out.narrow(dim, 0, sizes[group.rank()]).contiguous()


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, dim: int, total: int, group: Any) -> Any:
        ctx.dim, ctx.group = dim, group
        return gather(tensor, dim, total, group)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return own_part(grad, ctx.dim, ctx.group), None, None, None


class _OwnPart(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, dim: int, group: Any) -> Any:
        ctx.dim, ctx.total, ctx.group = dim, tensor.shape[dim], group
        return own_part(tensor, dim, group)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return gather(grad, ctx.dim, ctx.total, ctx.group), None, None


class _Sum(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, op: Any, group: Any) -> Any:
        ctx.divisor = group.size() if op is dist.ReduceOp.AVG else 1
        total = tensor.clone()
        dist.all_reduce(total, op, group)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad / ctx.divisor if ctx.divisor != 1 else grad, None, None


class _SumScatter(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, dim: int, op: Any, group: Any) -> Any:
        ctx.dim, ctx.total, ctx.group = dim, tensor.shape[dim], group
        ctx.divisor = group.size() if op is dist.ReduceOp.AVG else 1
        return reduce_scatter(tensor, dim, op, group)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        whole = gather(grad, ctx.dim, ctx.total, ctx.group)
        return (whole / ctx.divisor if ctx.divisor != 1 else whole), None, None, None


class _OneKeepsIt(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, group: Any) -> Any:
        return tensor.clone() if group.rank() == 0 else rushlight.zeros_like(tensor)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad, None


class _SumGradients(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, group: Any) -> Any:
        ctx.group = group
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        total = grad.clone()
        dist.all_reduce(total, group=ctx.group)
        return total, None


def gradient_is_partial(tensor: Any, group: Any) -> Any:
    """The tensor; in backward, the parts of its gradient are added over the group."""
    return _SumGradients.apply(tensor, group) if tensor.requires_grad else tensor


def move(local: Any, old: Placement, new: Placement, total: int, group: Any) -> Any:
    """A rank's local tensor under another placement. ``total``: the length of the old placement's
    dim in the whole tensor."""
    if old == new:
        return local
    if isinstance(old, Shard):
        whole = _Gather.apply(local, old.dim, total, group)
        return move(whole, Replicate(), new, total, group)
    if isinstance(old, Partial):
        op = _REDUCTIONS[old.reduce_op]
        if isinstance(new, Shard):
            return _SumScatter.apply(local, new.dim, op, group)
        return move(_Sum.apply(local, op, group), Replicate(), new, total, group)
    if isinstance(new, Shard):
        return _OwnPart.apply(local, new.dim, group)
    if isinstance(new, Partial):
        if new.reduce_op != "sum":
            raise NotImplementedError(f"DTensor: a whole tensor cannot become {new}")
        return _OneKeepsIt.apply(local, group)
    return local
