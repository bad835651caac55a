"""PyTorch's older profiler: the same recording without steps and schedules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from rushlight import _C
from rushlight._names.missing import names_missing_from
from rushlight.autograd._profiler_tools import (
    EnforceUnique,
    KinetoStepTracker,
    load_nvprof,
    parse_nvprof_trace,
)
from rushlight.autograd.profiler_util import (
    EventList,
    FunctionEvent,
    FunctionEventAvg,
    Interval,
    Kernel,
    MemRecordsAcc,
)
from rushlight.profiler import itt
from rushlight.profiler import profiler as _profiler
from rushlight.profiler.profiler import record_function
from rushlight.types import FileLike, Self

__all__ = [
    "EnforceUnique",
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "KinetoStepTracker",
    "MemRecordsAcc",
    "emit_itt",
    "emit_nvtx",
    "load_nvprof",
    "parse_nvprof_trace",
    "profile",
    "record_function",
]


class profile:
    """Records a with block; rushlight.profiler.profile says what is recorded."""

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Any = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: Any = None,
    ) -> None:
        if not use_cpu and not (use_cuda or use_device == "cuda"):
            raise ValueError("autograd.profiler.profile: use_cpu=False needs use_device='cuda', "
                             "or there is nothing to record")  # fmt: skip
        self.enabled = enabled
        self.entered = False
        self.use_cpu, self.use_cuda = use_cpu, bool(use_cuda or use_device == "cuda")
        self.use_device = "cuda" if self.use_cuda else use_device
        self.record_shapes, self.with_flops = record_shapes, with_flops
        self.profile_memory, self.with_stack = profile_memory, with_stack
        self.with_modules, self.acc_events = with_modules, acc_events
        self.experimental_config = experimental_config
        activities = {_profiler.ProfilerActivity.CPU} if use_cpu else set()
        if use_cuda or use_device == "cuda":
            activities.add(_profiler.ProfilerActivity.CUDA)
        self._profile = _profiler._KinetoProfile(
            activities=activities,
            record_shapes=record_shapes,
            with_flops=with_flops,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_modules=with_modules,
            experimental_config=experimental_config,
            acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback,
            post_processing_timeout_s=post_processing_timeout_s,
        )

    def __enter__(self) -> Self:
        if self.enabled:
            if self.entered:
                raise RuntimeError("autograd.profiler.profile: a profile cannot be entered twice")
            self.entered = True
            self._profile.start()
        return self

    def __exit__(self, *error: object) -> Literal[False]:
        if self.enabled:
            self._profile.stop()
        return False

    @classmethod
    def _of(cls, profiler: Any) -> Self:
        """What rushlight.profiler.profile recorded, by this class's names."""
        names = ("record_shapes", "with_flops", "profile_memory", "with_stack", "with_modules",
                 "experimental_config", "acc_events")  # fmt: skip
        made = cls(use_device=profiler.use_device, **{n: getattr(profiler, n) for n in names})
        made.entered, made._profile = True, profiler
        return made

    @property
    def trace_id(self) -> str:
        """The id of the trace; empty before there is one."""
        return self._profile.get_trace_id() or ""

    @property
    def function_events(self) -> EventList:
        return self._profile.events()

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
                     group_by_overload_name: bool = False) -> EventList:  # fmt: skip
        """What was recorded, by name."""
        return self.function_events.key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """The events as text."""
        return self.function_events.table(
            sort_by, row_limit, max_src_column_width, max_name_column_width,
            max_shapes_column_width, header, top_level_events_only,
        )  # fmt: skip

    def total_average(self) -> FunctionEventAvg:
        """All events as one."""
        return self.function_events.total_average()

    @property
    def self_cpu_time_total(self) -> float:
        return self.function_events.self_cpu_time_total

    def export_chrome_trace(
        self, path: FileLike, metadata: dict[str, str] | None = None,
        use_python_export: bool = False,
    ) -> None:  # fmt: skip
        """Writes what was recorded as JSON that Perfetto and chrome://tracing read; metadata has
        further keys of it, with values in JSON. use_python_export is accepted as PyTorch has it."""
        for key, value in (metadata or {}).items():
            self._profile.add_metadata_json(key, value)
        self._profile.export_chrome_trace(path)

    def export_stacks(self, path: FileLike, metric: str = "self_cpu_time_total") -> None:
        """Writes stacks with their times, for tools that draw flame graphs."""
        self._profile.export_stacks(path, metric)

    def toggle_collection_dynamic(self, enabled: bool, activities: Iterable[Any]) -> None:
        """Leaves what begins from now on out of the recording, or takes it in again."""
        self._profile.toggle_collection_dynamic(enabled, activities)

    def __str__(self) -> str:
        if self.enabled and self._profile._recording is None:
            return str(self.function_events)
        return "<unfinished rushlight.autograd.profiler.profile>"

    __repr__ = __str__


class emit_nvtx:
    """Puts a range for NVIDIA's tools (rushlight.cuda.nvtx) around each op, node of backward and
    named range of a with block; record_shapes=True adds the shapes of arguments."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.entered = False
        self.record_shapes = record_shapes

    def __enter__(self) -> Self:
        if not self.enabled:
            return self
        if self.entered:
            raise RuntimeError("autograd.profiler.emit_nvtx: it cannot be entered twice")
        self.entered = True
        _C._nvtx("emit", bool(self.record_shapes))
        return self

    def __exit__(self, *error: object) -> Literal[False]:
        if self.enabled:
            _C._nvtx("emit", None)
        return False


class emit_itt:
    """Marks for Intel's tools around each op: none are made, as rushlight.profiler.itt says."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.entered = False
        self.record_shapes = record_shapes

    def __enter__(self) -> Self:
        if not self.enabled:
            return self
        if self.entered:
            raise RuntimeError("autograd.profiler.emit_itt: it cannot be entered twice")
        self.entered = True
        itt.range_push("emit_itt")
        return self

    def __exit__(self, *error: object) -> Literal[False]:
        return False


__getattr__ = names_missing_from(__name__)
