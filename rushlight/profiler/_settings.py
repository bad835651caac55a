"""Names that PyTorch's recorder has for kinds of events, and settings that it takes."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

from rushlight.profiler._schedule import ProfilerActivity

__all__ = ["CATEGORIES", "RecordScope", "_ExperimentalConfig", "kinds_of"]

# PyTorch's names for kinds of activities, by group, and the categories that traces have for them.
# ("" is recorded nowhere as lines of its own.)
CATEGORIES: dict[str, dict[str, str]] = {
    "CPU": {
        "CPU_OP": "cpu_op",
        "USER_ANNOTATION": "user_annotation",
        "PYTHON_FUNCTION": "python_function",
        "CPU_INSTANT_EVENT": "cpu_instant_event",
        "CUDA_RUNTIME": "cuda_runtime",
        "CUDA_DRIVER": "cuda_driver",
        "EXTERNAL_CORRELATION": "",
    },
    "CUDA": {
        "CONCURRENT_KERNEL": "kernel",
        "GPU_MEMCPY": "gpu_memcpy",
        "GPU_MEMSET": "gpu_memset",
        "GPU_USER_ANNOTATION": "gpu_user_annotation",
        "CUDA_RUNTIME": "cuda_runtime",
        "CUDA_DRIVER": "cuda_driver",
        "CUDA_SYNC": "cuda_sync",
        "CUDA_EVENT": "",
        "OVERHEAD": "overhead",
        "EXTERNAL_CORRELATION": "",
    },
}


def kinds_of(activity: ProfilerActivity, names: Iterable[str]) -> set[str]:
    """The names of kinds of an activity, as a dict among the activities has them."""
    known = CATEGORIES.get(activity.name, {})
    chosen = set(names)
    for name in sorted(chosen, key=str):
        if name not in known:
            raise ValueError(f"profile: {activity} has no kind {name!r}; it has "
                             f"{', '.join(known) or 'none'}")  # fmt: skip
    return chosen


class RecordScope(enum.IntEnum):
    """What kind of thing an event is (FunctionEvent.scope).

    Example:
        >>> with rl.profiler.profile() as prof:
        ...     with rl.profiler.record_function("part"):
        ...         x = rl.ones(2)
        >>> event = next(event for event in prof.events() if event.name == "part")
        >>> rl.profiler.RecordScope(event.scope).name
        'USER_SCOPE'
    """

    FUNCTION = 0
    BACKWARD_FUNCTION = 1
    TORCHSCRIPT_FUNCTION = 2
    KERNEL_FUNCTION_DTYPE = 3
    CUSTOM_CLASS = 4
    BUILD_FEATURE = 5
    LITE_INTERPRETER = 6
    USER_SCOPE = 7
    STATIC_RUNTIME_OP = 8
    STATIC_RUNTIME_MODEL = 9


class _ExperimentalConfig:
    """Settings of PyTorch's recorder, as experimental_config takes them. They are kept, and change
    nothing: lines, overloads and waits for GPUs are always recorded, counters of GPUs never."""

    def __init__(
        self,
        profiler_metrics: Sequence[str] = (),
        profiler_measure_per_kernel: bool = False,
        verbose: bool = False,
        performance_events: Sequence[str] = (),
        enable_cuda_sync_events: bool = False,
        adjust_profiler_step: bool = False,
        disable_external_correlation: bool = False,
        profile_all_threads: bool = False,
        capture_overload_names: bool = False,
        record_python_gc_info: bool = False,
        expose_kineto_event_metadata: bool = False,
        custom_profiler_config: str = "",
        adjust_timestamps: bool = False,
        trace_only: bool = False,
    ) -> None:
        if profiler_metrics or performance_events:
            raise NotImplementedError(
                "profiler: counters of GPUs and CPUs (profiler_metrics, performance_events) are "
                "not read; report() has achieved FLOP/s and bytes/s from formulas"
            )
        self.profiler_measure_per_kernel = profiler_measure_per_kernel
        self.verbose = verbose
        self.enable_cuda_sync_events = enable_cuda_sync_events
        self.adjust_profiler_step = adjust_profiler_step
        self.disable_external_correlation = disable_external_correlation
        self.profile_all_threads = profile_all_threads
        self.capture_overload_names = capture_overload_names
        self.record_python_gc_info = record_python_gc_info
        self.expose_kineto_event_metadata = expose_kineto_event_metadata
        self.custom_profiler_config = custom_profiler_config
        self.adjust_timestamps = adjust_timestamps
        self.trace_only = trace_only
