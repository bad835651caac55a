"""Collectives with gradients: the loss is the sum of all ranks' losses, and each calls backward
on its own. The backward of a collective is a collective too."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import distributed as dist
from rushlight._C import Tensor
from rushlight._names.missing import fill
from rushlight.autograd import Function
from rushlight.distributed import ReduceOp

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]


def _copied(collective, tensor, *args):
    """What a collective that works in place makes of a copy."""
    copy = tensor.clone()
    collective(copy, *args)
    return copy


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, tensor: Any) -> Any:
        ctx.src, ctx.group = src, group
        return _copied(dist.broadcast, tensor, src, group)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        grad = _copied(dist.reduce, grad, ctx.src, ReduceOp.SUM, ctx.group)
        return None, None, grad if dist.get_rank() == ctx.src else rushlight.zeros_like(grad)


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, group: Any, tensor: Any) -> Any:
        ctx.dst, ctx.group = dst, group
        parts = [rushlight.zeros_like(tensor) for _ in range(dist.get_world_size(group))]
        here = dist.get_rank() == dst
        dist.gather(tensor.contiguous(), parts if here else None, dst, group)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        grad = rushlight.empty_like(grads[0])
        here = dist.get_rank() == ctx.dst
        dist.scatter(grad, list(grads) if here else None, ctx.dst, ctx.group)
        return None, None, grad


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, *tensors: Any) -> Any:
        ctx.src, ctx.group = src, group
        out = rushlight.empty_like(tensors[0])
        here = dist.get_rank() == src
        dist.scatter(out, list(tensors) if here else None, src, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        size = dist.get_world_size(ctx.group)
        parts = [rushlight.zeros_like(grad) for _ in range(size)]
        here = dist.get_rank() == ctx.src
        dist.gather(grad.contiguous(), parts if here else None, ctx.src, ctx.group)
        return None, None, *parts


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, op: Any, group: Any, tensor: Any) -> Any:
        ctx.dst, ctx.group, ctx.op = dst, group, op
        return _copied(dist.reduce, tensor, dst, op, group)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        grad = _copied(dist.broadcast, grad, ctx.dst, ctx.group)
        return None, None, None, _shared(grad, ctx.op, ctx.group)


def _shared(grad, op, group):
    """The part of a sum's gradient that each term gets."""
    if op is ReduceOp.AVG:
        return grad / dist.get_world_size(group)
    if op is not ReduceOp.SUM:
        raise NotImplementedError(
            f"distributed.nn.functional: the gradient of {op} is not there; use SUM or AVG"
        )
    return grad


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, output: Any, *inputs: Any) -> Any:
        ctx.group, ctx.op = group, op
        output = rushlight.empty_like(output)
        dist.reduce_scatter(output, list(inputs), op, group)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        grad = _shared(grad.contiguous(), ctx.op, ctx.group)
        parts = [rushlight.empty_like(grad) for _ in range(dist.get_world_size(ctx.group))]
        dist.all_gather(parts, grad, ctx.group)
        return None, None, None, *parts


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, tensor: Any) -> Any:
        ctx.group = group
        tensor = tensor.contiguous()
        parts = [rushlight.empty_like(tensor) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, tensor, group)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        out = rushlight.empty_like(grads[0])
        dist.reduce_scatter(out, list(grads), ReduceOp.SUM, ctx.group)
        return None, out


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, tensor: Any) -> Any:
        ctx.how = (op, group)
        return _copied(dist.all_reduce, tensor, *ctx.how)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        grad = _shared(grad, *ctx.how)
        return None, None, _copied(dist.all_reduce, grad, ReduceOp.SUM, ctx.how[1])


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, shapes: Any, *inputs: Any) -> Any:
        ctx.group, ctx.like = group, [rushlight.empty_like(t) for t in inputs]
        outputs = [
            rushlight.empty(s, dtype=inputs[0].dtype, device=inputs[0].device) for s in shapes
        ]
        dist.all_to_all(outputs, list(inputs), group)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        back = [rushlight.empty_like(t) for t in ctx.like]
        dist.all_to_all(back, list(grads), ctx.group)
        return None, None, *back


class _AllToAllSingle(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, shape: Any, to: Any, of: Any, tensor: Any) -> Any:
        ctx.group, ctx.shape, ctx.to, ctx.of = group, tensor.shape, to, of
        output = rushlight.empty(shape, dtype=tensor.dtype, device=tensor.device)
        dist.all_to_all_single(output, tensor, to, of, group)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        back = rushlight.empty(ctx.shape, dtype=grad.dtype, device=grad.device)
        dist.all_to_all_single(back, grad, ctx.of, ctx.to, ctx.group)
        return None, None, None, None, back


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """The tensor of rank ``src``; its gradient is the sum of all ranks'."""
    return _Broadcast.apply(src, group, tensor)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """On rank ``dst`` the tensors of all ranks, elsewhere zeros."""
    return _Gather.apply(dst, group, tensor)


def scatter(tensors: list[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """This rank's tensor of rank ``src``'s list. All ranks give a list; the shapes count."""
    return _Scatter.apply(src, group, *tensors)


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """On rank ``dst`` the sum or mean of all ranks' tensors, elsewhere a copy of the own one."""
    return _Reduce.apply(dst, op, group, tensor)


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None
) -> Tensor:
    """The sum or mean of all ranks' tensors for this rank. ``output`` says its shape."""
    return _ReduceScatter.apply(op, group, output, *input_list)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks."""
    return _AllGather.apply(group, tensor)


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """The tensors that all ranks have for this one. The outputs say the shapes."""
    shapes = [tuple(t.shape) for t in output_tensor_list]
    return _AllToAll.apply(group, shapes, *input_tensor_list)


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None, group: Any = None,
) -> Tensor:  # fmt: skip
    """Parts along dim 0 of all ranks' tensors. ``output`` says the shape."""
    shape = tuple(output.shape)
    return _AllToAllSingle.apply(group, shape, output_split_sizes, input_split_sizes, input)


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The sum or mean of all ranks' tensors."""
    return _AllReduce.apply(op, group, tensor)


fill(globals())
