"""profile: records ops, nodes of backward and named ranges of a block, or of steps of a loop."""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Union

from rushlight import _C
from rushlight.autograd.profiler_util import EventList
from rushlight.profiler._execution_trace import ExecutionTraceObserver
from rushlight.profiler._ranges import installed, record_function
from rushlight.profiler._schedule import ProfilerAction, ProfilerActivity
from rushlight.types import FileLike, Self

if TYPE_CHECKING:
    from rushlight.autograd import profiler as older

__all__ = ["ExecutionTraceObserver", "profile", "record_function", "tensorboard_trace_handler"]

# What the core is asked to note; _NO_OPS: only what GPUs do.
_SHAPES, _MEMORY, _FLOPS, _STACKS, _DEVICES, _NO_OPS = 1, 2, 4, 8, 16, 32
_told: set[str] = set()

# Members of ProfilerActivity; a dict holds filters of events per activity.
Activities: TypeAlias = Union[  # noqa: UP007 -- read at run time by older Pythons
    Iterable[Union[ProfilerActivity, dict[ProfilerActivity, Sequence[str]]]], None  # noqa: UP007
]


def _tell_once(text):
    if text not in _told:
        _told.add(text)
        warnings.warn(text, stacklevel=4)


def _check_activities(activities, use_cuda):
    """The activities, and of those that were given as dicts the names of kinds to keep."""
    from rushlight import cuda
    from rushlight.profiler._settings import kinds_of

    filters: dict[ProfilerActivity, set[str]] = {}
    if use_cuda is not None:
        warnings.warn("profile: use_cuda is deprecated, name ProfilerActivity.CUDA among the "
                      "activities", FutureWarning, stacklevel=3)  # fmt: skip
    if activities is None:
        chosen = {ProfilerActivity.CPU}
        if cuda.is_available():
            chosen.add(ProfilerActivity.CUDA)
    else:
        chosen = set()
        for given in activities:
            for activity in given if isinstance(given, dict) else (given,):
                if not isinstance(activity, ProfilerActivity):
                    raise TypeError("profile: activities must be ProfilerActivity members, not "
                                    f"{activity!r}")  # fmt: skip
                if activity in chosen:
                    raise ValueError(f"profile: {activity} is among the activities twice")
                chosen.add(activity)
                if isinstance(given, dict):
                    filters[activity] = kinds_of(activity, given[activity])
    if use_cuda is not None:
        chosen = (chosen | {ProfilerActivity.CUDA}) if use_cuda else chosen
    if not chosen:
        raise ValueError("profile: activities is empty, there is nothing to record")
    if ProfilerActivity.CUDA in chosen and not cuda.is_available():
        _tell_once("profile: CUDA is not available, its activity is left out")
    return chosen, filters


def _merged(activities, use_cuda):
    """The activities as they were given, with what use_cuda adds."""
    chosen, filters = _check_activities(activities, use_cuda)
    return [{a: filters[a]} if a in filters else a for a in chosen]


class _KinetoProfile:
    """Records from start_trace() to stop_trace(); profile adds steps and schedules."""

    def __init__(self, *, activities: Activities = None, record_shapes: bool = False,
                 profile_memory: bool = False, with_stack: bool = False, with_flops: bool = False,
                 with_modules: bool = False, experimental_config: Any = None,
                 execution_trace_observer: Any = None, acc_events: bool = False,
                 custom_trace_id_callback: Callable[[], str] | None = None,
                 post_processing_timeout_s: float | None = None) -> None:  # fmt: skip
        self.activities, self.activity_filters = _check_activities(activities, None)
        self.execution_trace_observer = execution_trace_observer
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_flops = with_flops
        self.with_modules = with_modules
        self.experimental_config = experimental_config
        self.acc_events = acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.post_processing_timeout_s = post_processing_timeout_s  # reading takes no such time
        self._devices = self._records_devices()
        self.use_device = "cuda" if self._devices else None
        self.preset_metadata: dict[str, str] = {}
        self._metadata: dict[str, Any] = {}
        self._trace_id = ""
        self._session: Any = None  # the recording, also after its end
        self._recording: ExitStack | None = None
        self._marks: Any = None  # with profile_memory, while it records
        self._worker_events: list[Any] = []  # what workers of loaders sent
        self._memory_before = 0
        self._events: EventList | None = None  # of the recording, once somebody asked
        self._kept: list[Any] = []  # of earlier recordings, with acc_events
        self._pauses: Any = None  # once collection was toggled

    def start(self) -> None:
        """Gets ready and records."""
        self.prepare_trace()
        self.start_trace()

    def stop(self) -> None:
        """Ends the recording."""
        self.stop_trace()

    @property
    def profiler(self) -> older.profile | None:
        """What was recorded, by the names of autograd.profiler.profile; None before the start."""
        from rushlight.autograd.profiler import profile as older_profile

        return older_profile._of(self) if self._trace_id else None

    def _records_devices(self):
        from rushlight import cuda

        return ProfilerActivity.CUDA in self.activities and cuda.is_available()

    def prepare_trace(self) -> None:
        """Chooses the number of the trace, and opens what records GPUs."""
        if self._devices and (why := _C._profiler_prepare_devices()) is not None:
            _tell_once(f"profile: what GPUs do is not recorded: {why}")
            self._devices = False
        callback = self.custom_trace_id_callback
        self._trace_id = callback() if callback is not None else uuid.uuid4().hex.upper()

    def start_trace(self) -> None:
        """Begins a recording, and drops the one before."""
        if self._recording is not None:
            raise RuntimeError("profile: this profiler is recording already")
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.start()
        if self._session is not None and self.acc_events:
            self._kept += self._read()
        self._events = self._session = self._pauses = None
        on_host = ProfilerActivity.CPU in self.activities
        if not on_host and not self._devices:
            return
        wanted = (
            _SHAPES * self.record_shapes
            | _MEMORY * self.profile_memory
            | _FLOPS * self.with_flops
            | _STACKS * self.with_stack
            | _DEVICES * self._devices
            | _NO_OPS * (not on_host)
        )
        self._recording = installed(self.with_modules) if on_host else ExitStack()
        if on_host:
            self._hear_workers(self._recording)
        try:
            self._memory_before = _C.memory_stats()["allocated"] if self.profile_memory else 0
            self._session = _C._profiler_start(wanted)
            if self.profile_memory:
                from rushlight.profiler._memory import Marks

                self._marks = Marks(self._session)
                self._marks.open()
        except BaseException:
            self._end_ranges()
            raise

    def _hear_workers(self, until):
        from rushlight.profiler import _workers

        self._worker_events = []
        hear = self._worker_events.append
        _workers.recorders.append(hear)
        until.callback(_workers.recorders.remove, hear)

    def stop_trace(self) -> None:
        """Ends the recording; the events can be read from now on."""
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.stop()
        if self._recording is None:
            return
        if self._marks is not None:
            self._marks.close()
            self._marks = None
        _C._profiler_stop(self._session)
        self._end_ranges()

    def _end_ranges(self):
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.close()

    def _read(self):
        if self._session is None:
            return EventList(profile_memory=self.profile_memory, with_flops=self.with_flops)
        if self._events is not None:
            return self._events
        from rushlight.profiler._events import read_events

        events = read_events(
            self._session,
            profile_memory=self.profile_memory,
            with_flops=self.with_flops,
            memory_before=self._memory_before,
            workers=self._worker_events,
            pauses=self._pauses,
            kinds=self.activity_filters.get(ProfilerActivity.CUDA),
        )
        if self._recording is None:  # else there will be more of them
            self._events = events
        return events

    def events(self) -> EventList:
        """What was recorded, in order of beginning."""
        events = self._read()
        return events._like([*self._kept, *events]) if self._kept else events

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
                     group_by_overload_name: bool = False) -> EventList:  # fmt: skip
        """What was recorded, by name: and by shapes, innermost lines or overloads, if asked."""
        return self.events().key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def export_chrome_trace(self, path: FileLike, use_python_export: bool = False) -> None:
        """Writes what was recorded as JSON that Perfetto and chrome://tracing read.

        A name that ends in .gz gets a packed file. With acc_events, only the last recording has a
        place on the time line, and is written. use_python_export is accepted as PyTorch has it:
        there is one writer.
        """
        from rushlight.profiler._trace import distributed_info, write_trace

        flags = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")
        metadata: dict[str, Any] = {"trace_id": self._trace_id}
        metadata |= {name: 1 for name in flags if getattr(self, name)}
        preset = {key: json.loads(value) for key, value in self.preset_metadata.items()}
        if (job := distributed_info()) is not None:
            metadata["distributedInfo"] = job
        filters = {activity.name: kinds for activity, kinds in self.activity_filters.items()}
        write_trace(path, self._read(), metadata | preset | self._metadata, filters)

    def export_stacks(self, path: FileLike, metric: str = "self_cpu_time_total") -> None:
        """Writes stacks with their times, for tools that draw flame graphs (with_stack=True)."""
        if not self.with_stack:
            raise ValueError("profile.export_stacks: the profile needs with_stack=True")
        self.events().export_stacks(path, metric)

    def export_memory_timeline(self, path: FileLike, device: str | None = None) -> None:
        """Writes how much memory of a device was live over time, by what it is for
        (profile_memory=True); rushlight.profiler.report shows it with the lines that made it.

        The end of the name says what is written: .html, a page with a drawing; .raw.json.gz, a list
        of [nanoseconds, action, bytes, category]; .json or .json.gz, [times, sizes by category].
        Without a device it is the first GPU, or the CPU where there is none.
        """
        if not self.profile_memory:
            raise ValueError("profile.export_memory_timeline: the profile needs "
                             "profile_memory=True")  # fmt: skip
        from rushlight import cuda
        from rushlight import device as device_of
        from rushlight.profiler._memory_timeline import write_memory_timeline

        chosen = device_of(device or ("cuda:0" if cuda.is_available() else "cpu"))
        name = "cpu" if chosen.type == "cpu" else f"{chosen.type}:{chosen.index or 0}"
        events = self._read()
        write_memory_timeline(path, events.memory, name, events.wall_begin)

    def toggle_collection_dynamic(
        self, enable: bool, activities: Iterable[ProfilerActivity]
    ) -> None:
        """Leaves what begins from now on out of the recording (False), or takes it in again (True):
        ops and ranges of the CPU, or what a GPU is asked to do. Steps stay."""
        chosen = list(activities)
        for activity in chosen:
            if activity not in (ProfilerActivity.CPU, ProfilerActivity.CUDA):
                raise ValueError(f"profile.toggle_collection_dynamic: {activity!r} is not recorded")
        if self._recording is None:
            return
        if self._pauses is None:
            from rushlight.profiler._events import Pauses

            self._pauses = Pauses()
        for activity in chosen:
            self._pauses.toggle(
                "cuda" if activity is ProfilerActivity.CUDA else "cpu", bool(enable)
            )

    def add_metadata(self, key: str, value: str) -> None:
        """A text that is written into traces from now on."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """A value in JSON that is written into traces from now on."""
        self._metadata[key] = json.loads(value)

    def preset_metadata_json(self, key: str, value: str) -> None:
        """The same for every recording of this profiler."""
        json.loads(value)
        self.preset_metadata[key] = value

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """What gives a trace its id, from the next one on."""
        self.custom_trace_id_callback = callback

    def get_trace_id(self) -> str | None:
        """The id of the trace, or None before there is one."""
        return self._trace_id or None


def _default_schedule_fn(_):
    """Every step is recorded."""
    return ProfilerAction.RECORD


def _warn(text):
    return lambda self: warnings.warn(f"profile: incorrect schedule: {text}", stacklevel=4)


_A = ProfilerAction
_prepare, _start, _stop = (
    _KinetoProfile.prepare_trace,
    _KinetoProfile.start_trace,
    _KinetoProfile.stop_trace,
)


def _ready(self):
    self._trace_ready()


# What is done between two steps, by the action before and the action after; None after the end.
_BETWEEN: dict[tuple[ProfilerAction, ProfilerAction | None], list[Callable[[Any], None]]] = {
    (_A.NONE, _A.WARMUP): [_prepare],
    (_A.NONE, _A.RECORD): [_prepare, _start],
    (_A.NONE, _A.RECORD_AND_SAVE): [_prepare, _start],
    (_A.WARMUP, _A.NONE): [_warn("WARMUP followed by NONE")],
    (_A.WARMUP, _A.RECORD): [_start],
    (_A.WARMUP, _A.RECORD_AND_SAVE): [_start],
    (_A.RECORD, _A.NONE): [_warn("RECORD followed by NONE"), _stop],
    (_A.RECORD, _A.WARMUP): [_warn("RECORD followed by WARMUP"), _stop, _prepare],
    (_A.RECORD, None): [_stop, _ready],
    (_A.RECORD_AND_SAVE, _A.NONE): [_stop, _ready],
    (_A.RECORD_AND_SAVE, _A.WARMUP): [_stop, _ready, _prepare],
    (_A.RECORD_AND_SAVE, _A.RECORD): [_stop, _ready, _prepare, _start],
    (_A.RECORD_AND_SAVE, _A.RECORD_AND_SAVE): [_stop, _ready, _prepare, _start],
    (_A.RECORD_AND_SAVE, None): [_stop, _ready],
}


class profile(_KinetoProfile):
    """Records a with block, or the steps of a loop that a schedule chooses.

    It sees the ops of the thread that began it and of the Python threads started meanwhile, the
    nodes of their backward passes, the ranges that record_function names, and what GPUs do for
    them. It does not see threads that ran before, or processes other than workers of a DataLoader.
    Profiles may overlap: each records everything.

    Arguments:
        activities: what to record; by default all that there is, CPU and CUDA.
        schedule: an action for each step number (rushlight.profiler.schedule).
        on_trace_ready: called with the profiler when a recording is complete.
        record_shapes: shapes, strides and dtypes of arguments.
        profile_memory: by how much the process's live CPU memory grew in each event.
        with_stack: the calls of the program that were under way.
        with_flops: floating-point operations by the formulas of the op table, and bytes moved.
        with_modules: ranges around the calls of modules, and each event's module path.
        acc_events: keep the events of all recordings of a schedule, not only of the last.
        execution_trace_observer: an ExecutionTraceObserver, or another object with start(),
            stop() and cleanup(), which runs for as long as the profile records.
        experimental_config, use_cuda, custom_trace_id_callback, post_processing_timeout_s:
            accepted as PyTorch has them.

    Example:
        >>> with rl.profiler.profile(record_shapes=True) as prof:
        ...     _ = rl.ones(2, 3) @ rl.ones(3, 2)
        >>> any("matmul" in event.key for event in prof.key_averages(group_by_input_shape=True))
        True
    """

    def __init__(
        self,
        *,
        activities: Activities = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        super().__init__(
            activities=_merged(activities, use_cuda),
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            execution_trace_observer=execution_trace_observer
            or ExecutionTraceObserver.build_execution_trace_obs_from_env(),
            acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback,
            post_processing_timeout_s=post_processing_timeout_s,
        )
        self.schedule = schedule or _default_schedule_fn
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self.schedule(0)
        self.step_rec_fn: record_function | None = None

    def start(self) -> None:
        """Begins with step 0."""
        self._pass(ProfilerAction.NONE, self.current_action)
        self._begin_step()

    def stop(self) -> None:
        """Ends the last step; hands what was recorded to on_trace_ready."""
        self._end_step()
        self._pass(self.current_action, None)

    def step(self) -> None:
        """Says that the next step begins."""
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        self._pass(before, self.current_action)
        self._begin_step()

    def _begin_step(self):
        if self.record_steps:
            self.step_rec_fn = record_function(f"ProfilerStep#{self.step_num}")
            self.step_rec_fn.__enter__()

    def _end_step(self):
        if self.step_rec_fn is not None:
            self.step_rec_fn.__exit__(None, None, None)
            self.step_rec_fn = None

    def _pass(self, before, after):
        for action in _BETWEEN.get((before, after), ()):
            action(self)

    def _trace_ready(self):
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> Literal[False]:
        self.stop()
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.cleanup()
        return False


def tensorboard_trace_handler(
    dir_name: str,
    worker_name: str | None = None,
    use_gzip: bool = False,
    use_python_export: bool = False,
) -> Callable[[Any], None]:
    """An on_trace_ready that writes each recording into a folder, as TensorBoard reads it.

    Arguments:
        dir_name: the folder; it is made where it is missing.
        worker_name: how file names begin; by default with the names of host and process.
        use_gzip: compresses the files.
        use_python_export: accepted as PyTorch has it.

    Returns:
        a function of a profile.

    Example:
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     handler = rl.profiler.tensorboard_trace_handler(folder, worker_name="main")
        ...     with rl.profiler.profile(on_trace_ready=handler):
        ...         x = rl.ones(2) + 1
        ...     [name.split(".")[0] for name in os.listdir(folder)]
        ['main']
    """

    def handle(prof):
        os.makedirs(dir_name, exist_ok=True)
        name = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        ending = ".gz" if use_gzip else ""
        prof.export_chrome_trace(
            os.path.join(dir_name, f"{name}.{time.time_ns()}.pt.trace.json{ending}")
        )

    return handle
