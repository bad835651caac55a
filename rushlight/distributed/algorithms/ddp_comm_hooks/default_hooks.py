"""Hooks that average a bucket of gradients: as it is, or in half precision on the wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import distributed as dist
from rushlight.futures import Future

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
    "noop_hook",
]


def _group(state):
    return dist.group.WORLD if state is None else state


def allreduce_hook(process_group: Any, bucket: Any) -> Future:
    """The mean over the group: what happens without a hook."""
    tensor = bucket.buffer()
    group = _group(process_group)
    work = dist.all_reduce(tensor, dist.ReduceOp.AVG, group, async_op=True)
    assert work is not None
    return work.get_future().then(lambda done: done.value()[0])


def _compressed(dtype, process_group, bucket):
    group = _group(process_group)
    buffer = bucket.buffer()
    small = buffer.to(dtype).div_(group.size())
    work = dist.all_reduce(small, group=group, async_op=True)
    return work.get_future().then(lambda done: buffer.copy_(done.value()[0]))


def fp16_compress_hook(process_group: Any, bucket: Any) -> Future:
    """The mean, sent as float16: half the bytes of float32."""
    return _compressed(rushlight.float16, process_group, bucket)


def bf16_compress_hook(process_group: Any, bucket: Any) -> Future:
    """The mean, sent as bfloat16: half the bytes of float32, and its range."""
    return _compressed(rushlight.bfloat16, process_group, bucket)


def _wrapped(dtype, hook):
    def wrapper(state: Any, bucket: Any) -> Future:
        own = bucket.buffer()
        bucket.set_buffer(own.to(dtype))

        def back(done: Future) -> Any:
            value = done.value()
            bucket.set_buffer(own)
            return own.copy_(value[0] if isinstance(value, (list, tuple)) else value)

        return hook(state, bucket).then(back)

    return wrapper


def fp16_compress_wrapper(hook: Callable[[Any, Any], Future]) -> Callable[[Any, Any], Future]:
    """A hook that works on float16 gradients."""
    return _wrapped(rushlight.float16, hook)


def bf16_compress_wrapper(hook: Callable[[Any, Any], Future]) -> Callable[[Any, Any], Future]:
    """A hook that works on bfloat16 gradients."""
    return _wrapped(rushlight.bfloat16, hook)


def noop_hook(_: Any, bucket: Any) -> Future:
    """Each rank keeps its own gradients: to see what communication costs."""
    future = Future()
    future.set_result(bucket.buffer())
    return future
