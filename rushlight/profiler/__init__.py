"""torch.profiler's names. Times of operators are not recorded yet: profile keeps the time of the
block and of record_function's labels, which is what it reports."""

from __future__ import annotations

from typing import Any

from rushlight._names.missing import fill
from rushlight.profiler._schedule import ProfilerAction, ProfilerActivity, schedule
from rushlight.profiler.profiler import profile, record_function, tensorboard_trace_handler

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


def kineto_available() -> bool:
    """Whether PyTorch's tracing library is there: no."""
    return False


def supported_activities() -> Any:
    """What can be recorded."""
    return {ProfilerActivity.CPU}


fill(globals())
