"""Gradients of some parameters, as a communication hook of DistributedDataParallel sees them."""

from __future__ import annotations

from typing import Any

from rushlight._C import Tensor

__all__ = ["GradBucket"]


class GradBucket:
    """Gradients of some parameters, as a communication hook of DistributedDataParallel sees them.

    DistributedDataParallel makes the buckets, and hands them to the hook one by one.

    Arguments:
        bucket: the module's own record of the bucket, with the flat tensor and its views.
        parameters: all parameters of the module; the bucket knows which are its own.
        index: the number of the bucket in the step.
        last: whether the step has no more buckets.

    Example:
        >>> from rushlight import distributed as dist
        >>> def hook(seen, bucket: dist.GradBucket):
        ...     seen.append((bucket.index(), bucket.is_last(), bucket.buffer().numel()))
        ...     work = dist.all_reduce(bucket.buffer(), async_op=True)
        ...     return work.get_future().then(lambda done: done.value()[0])
        >>> def train(rank):
        ...     model, seen = nn.parallel.DistributedDataParallel(nn.Linear(2, 1)), []
        ...     model.register_comm_hook(seen, hook)
        ...     model(rl.ones(1, 2) * (rank + 1)).sum().backward()
        ...     return seen, model.module.weight.grad
        >>> dist.simulate(2, train)[0]
        ([(0, True, 3)], tensor([[3., 3.]]))
    """

    def __init__(self, bucket: Any, parameters: list[Any], index: int, last: bool) -> None:
        self._views = [bucket.views[i] for i in bucket.indices]
        self._parameters = [parameters[i] for i in bucket.indices]
        self._buffer = bucket.flat
        self._index, self._last = index, last

    def index(self) -> int:
        """Its number; buckets go out in this order."""
        return self._index

    def is_last(self) -> bool:
        """Whether the step has no more buckets."""
        return self._last

    def buffer(self) -> Tensor:
        """The gradients, one behind the other, in one tensor of one dim."""
        return self._buffer

    def set_buffer(self, buffer: Any) -> None:
        """Another tensor in its place."""
        self._buffer = buffer

    def gradients(self) -> list[Tensor]:
        """The gradients, as views of the buffer."""
        if self._buffer.dtype == self._views[0].dtype:
            return list(self._views)
        parts = self._buffer.split([view.numel() for view in self._views])
        return [p.view(v.shape) for p, v in zip(parts, self._views, strict=True)]

    def parameters(self) -> list[Tensor]:
        """The parameters they belong to."""
        return list(self._parameters)
