"""Names that PyTorch's recorder has for kinds of events, and settings that it takes."""

from __future__ import annotations

import enum
from collections.abc import Sequence

__all__ = ["RecordScope", "_ExperimentalConfig"]


class RecordScope(enum.IntEnum):
    """What kind of thing an event is (FunctionEvent.scope)."""

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
