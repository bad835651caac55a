"""What ran, when, where and for how long. docs/profiler.md is the guide."""

from __future__ import annotations

from rushlight._names.missing import fill
from rushlight.autograd.profiler_util import DeviceType
from rushlight.profiler._execution_trace import ExecutionTraceObserver
from rushlight.profiler._plan import plan
from rushlight.profiler._report import report
from rushlight.profiler._schedule import ProfilerAction, ProfilerActivity, schedule
from rushlight.profiler._settings import RecordScope, _ExperimentalConfig
from rushlight.profiler.profiler import (
    _KinetoProfile,
    profile,
    record_function,
    tensorboard_trace_handler,
)

__all__ = [
    "DeviceType",
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "RecordScope",
    "_ExperimentalConfig",
    "_KinetoProfile",
    "kineto_available",
    "plan",
    "profile",
    "record_function",
    "report",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


def kineto_available() -> bool:
    """Whether profile records operators and writes traces: always.

    Example:
        >>> rl.profiler.kineto_available()
        True
    """
    return True


def supported_activities() -> set[ProfilerActivity]:
    """What can be recorded: the CPU's work, and the GPUs' where there are any.

    Example:
        >>> rl.profiler.ProfilerActivity.CPU in rl.profiler.supported_activities()
        True
    """
    from rushlight import cuda

    gpus = {ProfilerActivity.CUDA} if cuda.is_available() else set()
    return {ProfilerActivity.CPU, *gpus}


fill(globals())
