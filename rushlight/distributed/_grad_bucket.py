"""Gradients of some parameters, as a communication hook of DistributedDataParallel sees them."""

from __future__ import annotations

from typing import Any

from rushlight._C import Tensor

__all__ = ["GradBucket"]


class GradBucket:
    """A bucket, as a communication hook sees it."""

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
