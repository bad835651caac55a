"""Events of a profile, lists of them, and averages by name. Times are microseconds."""

from __future__ import annotations

import bisect
import enum
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from rushlight._names.missing import names_missing_from
from rushlight.types import FileLike

__all__ = [
    "DeviceType",
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "MemRecordsAcc",
    "StringTable",
]

_STACK_METRICS = ("self_cpu_time_total", "self_cuda_time_total", "self_device_time_total",
                  "self_xpu_time_total", "self_privateuse1_time_total")  # fmt: skip
_ONE_WORD = str.maketrans(" ;\t\n", "____")  # flame graph tools split at these


# Where an event ran, with PyTorch's numbers.
DeviceType = enum.Enum(
    "DeviceType",
    {
        "CPU": 0,
        "CUDA": 1,
        "XPU": 12,
        "MPS": 13,
        "Meta": 14,
        "HPU": 15,
        "MTIA": 19,
        "PrivateUse1": 20,
    },
)
DeviceType.__doc__ = """Where an event of a profile ran, or what was measured: CPU, CUDA and others.

Example:
    >>> with rl.profiler.profile() as prof:
    ...     x = rl.ones(2) + 1
    >>> prof.events()[0].device_type is rl.profiler.DeviceType.CPU
    True
"""


class Interval:
    """From `start` to `end`."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        """How long it is."""
        return self.end - self.start

    def __repr__(self) -> str:
        return f"Interval(start={self.start}, end={self.end})"


class MemRecordsAcc:
    """Finds those of some records of memory that lie in a span of time. What a record begins with
    has `start_ns()`."""

    def __init__(self, mem_records: Sequence[Any]) -> None:
        self._mem_records = sorted(mem_records, key=lambda record: record[0].start_ns())
        self._start_nses = [record[0].start_ns() for record in self._mem_records]

    def in_interval(self, start_ns: int, end_ns: int) -> Iterator[tuple[Any, ...]]:
        """The records from one time to another, in order."""
        first = bisect.bisect_left(self._start_nses, start_ns)
        yield from self._mem_records[first : bisect.bisect_right(self._start_nses, end_ns)]


class StringTable(defaultdict):
    """Names as they are shown: those of C++ functions as they are written, others as they are."""

    def __missing__(self, key: str) -> str:
        self[key] = _demangled(key)
        return self[key]


def _demangled(name):
    if not name.startswith("_Z"):
        return name
    import ctypes

    try:
        function = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except (OSError, AttributeError):
        return name
    function.restype = ctypes.c_void_p
    status = ctypes.c_int(0)
    found = function(name.encode(), None, None, ctypes.byref(status))
    if not found:
        return name
    text = ctypes.string_at(found).decode()
    ctypes.CDLL(None).free(ctypes.c_void_p(found))
    return text


class Kernel(NamedTuple):
    """What an op queued on a device: name, device and duration in microseconds."""

    name: str
    device: int
    duration: float


def _formatted(attribute):
    def text(self) -> str:
        from rushlight.profiler._table import format_time

        return format_time(getattr(self, attribute))

    return property(text)


def _same_as(attribute):
    return property(lambda self: getattr(self, attribute))


class _Times:
    """What events and averages have in common: text of times, and times under their older names.

    `device_time_total` is what the work took on the GPU that an event and the events inside it
    queued; `self_device_time_total` leaves those inside out.
    """

    cpu_time_str = _formatted("cpu_time")
    cpu_time_total_str = _formatted("cpu_time_total")
    self_cpu_time_total_str = _formatted("self_cpu_time_total")
    device_time_str = _formatted("device_time")
    device_time_total_str = _formatted("device_time_total")
    self_device_time_total_str = _formatted("self_device_time_total")

    is_async = is_remote = is_legacy = False
    node_id = -1
    use_device: str | None = None
    device_type: DeviceType = DeviceType.CPU

    cpu_time_total: float
    device_time_total: float
    self_device_time_total: float
    count: int

    @property
    def cpu_time(self) -> float:
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        return self.device_time_total / self.count if self.count else 0.0

    # Their older names.
    cuda_time = _same_as("device_time")
    cuda_time_total = _same_as("device_time_total")
    self_cuda_time_total = _same_as("self_device_time_total")


class FunctionEvent(_Times):
    """One op, node of backward or range, call of the GPU's driver, or what ran on a GPU
    (`device_type` says).

    Beside PyTorch's attributes: `source` is the program's line, `module` the path of the module
    that it belongs to (with_modules=True), `forward` the event whose gradient a node computes,
    `bytes` what the op reads and writes (with_flops=True), `failed` whether it raised, `finished`
    whether it had ended when the profile did. What ran on a GPU has `launcher`, the event that
    queued it, `call`, the call of the driver that did, and `launch`, its grid and the like.
    """

    device_index = -1
    device_resource_id: int
    external_id: int

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        overload_name: str | None = None,
        fwd_thread: int | None = None,
        input_shapes: list[Any] | None = None,
        stack: list[str] | None = None,
        scope: int = 0,
        cpu_memory_usage: int = 0,
        sequence_nr: int = -1,
        flops: int | None = None,
        is_user_annotation: bool | None = False,
        is_python_function: bool = False,
    ) -> None:
        self.id = self.external_id = id
        self.name = self.key = self.trace_name = name
        self.overload_name = overload_name or ""
        self.thread = self.device_resource_id = thread
        self.fwd_thread = 0 if fwd_thread is None else fwd_thread
        self.time_range = Interval(start_us, end_us)
        self.count = 1
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None
        self.input_shapes: list[Any] = input_shapes or []
        self.structured_input_shapes: list[Any] = []
        self.structured_input_strides: list[Any] = []
        self.input_dtypes: list[str] = []
        self.concrete_inputs: list[Any] = []
        self.kwinputs: dict[str, Any] = {}
        self.kernels: list[Kernel] = []
        self.stack = stack or []
        self.scope = scope
        self.cpu_memory_usage = cpu_memory_usage
        self.device_memory_usage = 0
        self.sequence_nr = sequence_nr
        self.flops = flops
        self.is_user_annotation = is_user_annotation
        self.is_python_function = is_python_function
        self.bytes = 0
        self.failed = False
        self.finished = True
        self.source: str | None = None
        self.module: str | None = None
        self.forward: FunctionEvent | None = None
        self.system_thread = 0
        self.process: int | None = None  # of a loader's worker: the number of its process
        self.worker = -1  # and which worker it is
        self.activity = ""  # of a GPU, or a call of its driver: the category in traces
        self.device_call = False
        self.correlation = 0  # a call and what it queued have the same
        self.launcher: FunctionEvent | None = None
        self.call: FunctionEvent | None = None
        self.launch: dict[str, Any] = {}
        self._device_time = 0.0
        self._node = (0, -1)

    @property
    def activity_type(self) -> str:
        """The category that traces have it in, such as "cpu_op" or "kernel"."""
        if self.activity or self.is_user_annotation:
            return self.activity or "user_annotation"
        return "python_function" if self.is_python_function else "cpu_op"

    @property
    def linked_correlation_id(self) -> int:
        """Of what ran on a GPU: the id of the op that queued it; otherwise 0."""
        return self.external_id if self.on_device and self.launcher is not None else 0

    def append_kernel(self, name: str, device: int, duration: float) -> None:
        """Adds what the op queued on a GPU."""
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Adds an event that ran inside this one, and in no other inside it."""
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """The event that this one ran inside of."""
        self.cpu_parent = parent

    @property
    def on_device(self) -> bool:
        """Whether it ran on a GPU, and no thread of the host was busy with it."""
        return self.device_type is not DeviceType.CPU

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        return 0.0 if self.on_device else self.time_range.elapsed_us()

    @property
    def device_time_total(self) -> float:  # type: ignore[override]
        return self.time_range.elapsed_us() if self.on_device else self._device_time

    @property
    def self_device_time_total(self) -> float:  # type: ignore[override]
        if self.on_device:
            return self.time_range.elapsed_us()
        return sum(kernel.duration for kernel in self.kernels)

    @property
    def self_cpu_time_total(self) -> float:
        return self.cpu_time_total - sum(c.cpu_time_total for c in self.cpu_children)

    @property
    def self_cpu_memory_usage(self) -> int:
        return self.cpu_memory_usage - sum(c.cpu_memory_usage for c in self.cpu_children)

    @property
    def self_device_memory_usage(self) -> int:
        return self.device_memory_usage - sum(c.device_memory_usage for c in self.cpu_children)

    @property
    def self_cuda_memory_usage(self) -> int:
        return self.self_device_memory_usage

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start} end_us={self.time_range.end} "
            f"cpu_children={[c.id for c in self.cpu_children]} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} "
            f"seq_nr={self.sequence_nr}>"
        )


class FunctionEventAvg(_Times):
    """All events of one key; cpu_time is the average, cpu_time_total the sum."""

    def __init__(self) -> None:
        self.key: str | None = None
        self.count = 0
        self.overload_name = ""
        self.cpu_time_total = 0.0
        self.self_cpu_time_total = 0.0
        self.device_time_total = self.self_device_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.device_memory_usage = self.self_device_memory_usage = 0
        self.flops = 0
        self.bytes = 0
        self.input_shapes: Any = None
        self.stack: list[str] | None = None
        self.scope: int | None = None
        self.module: str | None = None
        self.is_user_annotation: bool | None = None
        self.cpu_children: list[FunctionEvent] | None = None
        self.cpu_parent: FunctionEvent | None = None

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Adds an event or another average; the first one gives the key."""
        if self.key is None:
            for name in ("key", "overload_name", "cpu_parent", "cpu_children", "input_shapes",
                         "stack", "scope", "module", "is_user_annotation", "device_type",
                         "use_device"):  # fmt: skip
                setattr(self, name, getattr(other, name))
        for name in ("count", "cpu_time_total", "self_cpu_time_total", "device_time_total",
                     "self_device_time_total", "cpu_memory_usage",
                     "self_cpu_memory_usage", "device_memory_usage", "self_device_memory_usage",
                     "flops", "bytes"):  # fmt: skip
            setattr(self, name, getattr(self, name) + (getattr(other, name) or 0))
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage}>"
        )


class EventList(list):
    """Events, or averages of them; table() prints them."""

    def __init__(
        self,
        events: Iterable[Any] = (),
        *,
        use_device: str | None = None,
        profile_memory: bool = False,
        with_flops: bool = False,
    ) -> None:
        super().__init__(events)
        self._use_device = use_device
        self._profile_memory = profile_memory
        self._with_flops = with_flops
        self.wall_begin = 0  # ns since 1970 at time 0 of the events
        self.time_range = Interval(0.0, 0.0)  # of the whole recording
        self.memory: Any = None  # rushlight.profiler._memory.MemoryHistory, of a recording

    def _like(self, events):
        made = EventList(events, use_device=self._use_device, profile_memory=self._profile_memory,
                         with_flops=self._with_flops)  # fmt: skip
        made.wall_begin, made.time_range = self.wall_begin, self.time_range
        made.memory = self.memory
        return made

    @property
    def self_cpu_time_total(self) -> float:
        return sum(e.self_cpu_time_total for e in self)

    @property
    def supported_export_stacks_metrics(self) -> list[str]:
        return list(_STACK_METRICS)

    def key_averages(self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0,
                     group_by_overload_name: bool = False) -> EventList:  # fmt: skip
        """One average per name; with shapes, innermost lines or overloads as part of the key."""
        groups: dict[Any, FunctionEventAvg] = {}
        for event in self:
            key: tuple[Any, ...] = (event.key, event.is_user_annotation, event.device_type)
            if group_by_overload_name:
                key += (event.overload_name,)
            if group_by_input_shapes:
                key += (str(event.input_shapes),)
            if group_by_stack_n > 0:
                key += tuple(event.stack[:group_by_stack_n])
            groups.setdefault(key, FunctionEventAvg()).add(event)
        averages = self._like(groups.values())
        for average in averages:
            average.stack = (average.stack or [])[:group_by_stack_n]
            if not group_by_input_shapes:
                average.input_shapes = ""
            if not group_by_overload_name:
                average.overload_name = ""
        return averages

    def total_average(self) -> FunctionEventAvg:
        """All of them as one."""
        total = FunctionEventAvg()
        for event in self:
            total.add(event)
        total.key = "Total"
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The rows as text; sort_by is an attribute such as "self_cpu_time_total"."""
        from rushlight.profiler._table import build_table

        return build_table(self, sort_by=sort_by, row_limit=row_limit, header=header,
                           max_src_column_width=max_src_column_width,
                           max_name_column_width=max_name_column_width,
                           max_shapes_column_width=max_shapes_column_width,
                           profile_memory=self._profile_memory, with_flops=self._with_flops,
                           top_level_events_only=top_level_events_only,
                           time_unit=time_unit)  # fmt: skip

    def export_chrome_trace(self, path: FileLike) -> None:
        """Writes the events as JSON that Perfetto and chrome://tracing read."""
        from rushlight.profiler._trace import write_trace

        write_trace(path, self, {})

    def export_stacks(self, path: FileLike, metric: str) -> None:
        """Writes lines of "outermost;...;innermost value" for tools that draw flame graphs."""
        if metric not in _STACK_METRICS:
            raise ValueError(
                f"EventList.export_stacks: metric must be one of {', '.join(_STACK_METRICS)}, "
                f"not {metric!r}"
            )
        with open(path, "w") as file:
            for event in self:
                value = int(getattr(event, metric, 0))
                if event.stack and value > 0:
                    frames = ";".join(f.translate(_ONE_WORD) for f in reversed(event.stack))
                    file.write(f"{frames} {value}\n")

    def __str__(self) -> str:
        return self.table()


__getattr__ = names_missing_from(__name__)
