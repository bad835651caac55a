"""What was recorded, as events: from the core's tuples to FunctionEvents with parents and links."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterable
from typing import Any

from rushlight import _C
from rushlight.autograd.profiler_util import EventList, FunctionEvent, Interval
from rushlight.profiler._device import add_device_events, link_device_events, name_waits
from rushlight.profiler._memory import MemoryHistory, read_memory
from rushlight.profiler._ranges import MODULE, STEP, WAIT
from rushlight.profiler._settings import CATEGORIES
from rushlight.profiler._workers import WorkerEvents

__all__ = ["Pauses", "read_events"]

OP, NODE, RANGE, APPLY = 0, 1, 2, 4  # kinds, as the core numbers them
FUNCTION, BACKWARD_FUNCTION, USER_SCOPE = 0, 1, 7  # PyTorch's scopes

_EVALUATE = "autograd::engine::evaluate_function: "
# Nodes that PyTorch shows by the full name of their C++ class.
_FULL_NAMES = {
    name: f"torch::autograd::{name}" for name in ("AccumulateGrad", "CopyBackwards", "CopySlices")
}
# Ops whose name in our table, without the underscore of private ones, is not what PyTorch shows.
_ATEN_NAMES = {
    "cast": "_to_copy", "_batch_norm": "native_batch_norm", "_batch_norm_counted": "batch_norm",
    "_convolution_forward": "convolution", "_row_norm": "native_layer_norm",
}  # fmt: skip
_CPP_TYPES = {
    "float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16",
    "int8": "signed char", "int16": "short int", "int32": "int", "int64": "long int",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int",
    "uint64": "unsigned long", "bool": "bool", "complex32": "c10::complex<c10::Half>",
    "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip


class Pauses:
    """Times in which an activity ("cpu", "cuda") is not recorded."""

    def __init__(self) -> None:
        self.spans: dict[str, list[list[float]]] = {}

    def toggle(self, activity: str, on: bool) -> None:
        """From now on; nothing happens where it is so already."""
        spans = self.spans.setdefault(activity, [])
        paused = bool(spans) and spans[-1][1] == math.inf
        if on and paused:
            spans[-1][1] = time.monotonic_ns()
        elif not on and not paused:
            spans.append([time.monotonic_ns(), math.inf])

    def covers(self, activity: str, event: FunctionEvent, begin: int) -> bool:
        """Whether the event began in such a time."""
        if activity not in self.spans:
            return False
        at = begin + event.time_range.start * 1000
        return any(start <= at < end for start, end in self.spans[activity])


def aten_name(op: str) -> str:
    """An op of the table as PyTorch shows it."""
    if "::" in op:  # a custom operator
        return op
    return "aten::" + _ATEN_NAMES.get(op, op.removeprefix("_"))


def _is_op(name):
    """Whether an event is an operator, of the table or a custom one; nodes have other names."""
    return "::" in name and not name.startswith(("autograd::", "torch::"))


def _frame(place: tuple[str, int, str]) -> str:
    file, line, function = place
    return f"{file}({line}): {function}"


def _describe_inputs(event: FunctionEvent, inputs: list[Any]) -> None:
    """Shapes, strides, types and values of the arguments: lists with an entry per argument."""
    shapes: list[Any] = []
    strides: list[Any] = []
    types: list[str] = []
    values: list[Any] = []
    for item in inputs:
        shape: list[Any] = []
        stride: list[Any] = []
        type_, value = "", None
        if item is not None:
            kind, what = item
            if kind == "tensor":
                dtype, sizes, steps = what
                shape, stride = list(sizes), list(steps)
                type_ = _CPP_TYPES.get(dtype, dtype or "")
            elif kind == "tensors":
                shape = [list(sizes) for _, sizes, _ in what]
                stride = [list(steps) for _, _, steps in what]
                type_ = "TensorList"
            elif kind == "numbers":
                type_, value = "ScalarList", list(what)
            else:
                type_, value = "Scalar", what
        shapes.append(shape)
        strides.append(stride)
        types.append(type_)
        values.append(value)
    event.structured_input_shapes = shapes
    event.structured_input_strides = strides
    # As in PyTorch, the plain list has the shapes of tensors only, not those in lists.
    event.input_shapes = [
        [] if t == "TensorList" else s for s, t in zip(shapes, types, strict=True)
    ]
    event.input_dtypes = types
    event.concrete_inputs = values


def _event(raw: tuple[Any, ...], number: int, begin: int, stop: int) -> FunctionEvent:
    (kind, name, overload, thread, system_thread, start, end, failed, flops, moved, node, sequence,
     place, calls, inputs, tag, _) = raw  # fmt: skip
    module = None
    scope = FUNCTION
    if kind == OP:
        name = aten_name(name)
    elif kind == RANGE:
        scope = FUNCTION if tag == STEP else USER_SCOPE
        if tag == MODULE:
            path, _, class_name = name.partition("\n")
            module = path or class_name
            name = f"nn.Module: {module} ({class_name})" if path else f"nn.Module: {class_name}"
    else:
        scope = BACKWARD_FUNCTION if kind & APPLY else FUNCTION
        name = _FULL_NAMES.get(name, name)
        name = name if kind & APPLY else _EVALUATE + name
    event = FunctionEvent(
        id=number,
        name=name,
        thread=thread,
        start_us=(start - begin) / 1000,
        end_us=((end or stop) - begin) / 1000,
        overload_name=overload,
        scope=scope,
        sequence_nr=sequence,
        flops=flops,
        is_user_annotation=kind == RANGE and tag not in (MODULE, STEP),
        is_python_function=kind == RANGE and tag == MODULE,
    )
    if event.name.startswith("ProfilerStep#"):  # all steps have one key
        event.name = event.key = "ProfilerStep*"
    event.bytes = moved
    event.failed = failed
    event.finished = end != 0
    event.system_thread = system_thread
    event.source = None if place is None else _frame(place)
    event.stack = [] if calls is None else [_frame(p) for p in calls]
    event.module = module
    event._node = node, sequence
    if inputs is not None:
        _describe_inputs(event, inputs)
    return event


def _nest(events: list[FunctionEvent]) -> None:
    """Parents and children, of the events of one thread in order of beginning."""
    open_: list[FunctionEvent] = []
    for event in events:
        # A range may end after one that began later: it is then no part of it.
        while open_ and open_[-1].time_range.end < event.time_range.end:
            open_.pop()
        while open_ and open_[-1].time_range.end <= event.time_range.start:
            open_.pop()
        if open_:
            parent = open_[-1]
            parent.append_cpu_child(event)
            event.set_cpu_parent(parent)
            if event.module is None:
                event.module = parent.module
        open_.append(event)


def _link(events: list[FunctionEvent]) -> None:
    """Nodes of backward get the op that recorded them, with its thread, lines and module."""
    recorded: dict[tuple[int, int], FunctionEvent] = {}
    for event in sorted(events, key=lambda e: e.time_range.end):
        if event._node[0] and _is_op(event.name):
            recorded.setdefault(event._node, event)
    for event in events:
        if not event._node[0] or _is_op(event.name):
            continue
        forward = recorded.get(event._node)
        if forward is not None and forward.time_range.start < event.time_range.start:
            event.forward = forward
            event.fwd_thread = forward.thread
    for event in events:  # ops inside a node belong to the module of the node's op
        if event.module is None:
            at: FunctionEvent | None = event
            while at is not None and at.forward is None:
                at = at.cpu_parent
            if at is not None and at.forward is not None:
                event.module = at.forward.module


def _outside_events(history: MemoryHistory, thread: int) -> list[FunctionEvent]:
    """What came and went outside all events, as PyTorch shows it: events named [memory]."""
    found = []
    for at, device, change, block in history.changes:
        if device == "meta" or (block.event if change > 0 else block.freed_in) is not None:
            continue
        event = FunctionEvent(0, "[memory]", thread, at, at)
        if device == "cpu":
            event.cpu_memory_usage = change
        else:
            event.device_memory_usage = change
        found.append(event)
    return found


def _in_order(event: FunctionEvent) -> tuple[float, float, int]:
    return event.time_range.start, -event.time_range.end, event.id


def _worker_events(
    workers: Iterable[WorkerEvents], begin: int, stop: int, threads: int
) -> list[FunctionEvent]:
    """What workers of loaders did, each on a thread of its own above the given number."""
    found: list[FunctionEvent] = []
    numbers: dict[tuple[int, int], int] = {}
    for process, worker, raw_events in workers:
        batch = [_event(raw, 0, begin, stop) for raw in raw_events if raw[5] >= begin]
        for event in batch:
            key = (process, event.thread)
            event.thread = event.device_resource_id = numbers.setdefault(
                key, threads + 1 + len(numbers)
            )
            event.process, event.worker = process, worker
        _nest([e for e in batch if e.thread == batch[0].thread])
        _link(batch)
        found += batch
    return found


def read_events(
    session: Any, *, profile_memory: bool, with_flops: bool, memory_before: int = 0,
    workers: Iterable[WorkerEvents] = (), pauses: Pauses | None = None,
    kinds: set[str] | None = None,
) -> EventList:  # fmt: skip
    """The events of a session, in order of beginning; those so far, if it still records. `kinds`
    of what GPUs did are kept, by PyTorch's names; without it, all."""
    pauses = pauses or Pauses()
    begin, stop, wall, raw_events = _C._profiler_events(session)
    _, lost, activities = _C._profiler_activities(session)
    all_events: list[FunctionEvent] = []
    by_number: dict[int, FunctionEvent] = {}
    waits: list[FunctionEvent] = []
    for number, raw in enumerate(raw_events, 1):
        event = _event(raw, number, begin, stop)
        if raw[0] == RANGE and raw[-2] == WAIT:
            waits.append(event)
            continue
        if raw[-2] == STEP or not pauses.covers("cpu", event, begin):
            all_events.append(event)
            by_number[raw[-1]] = event
    ran: list[FunctionEvent] = []
    calls: list[FunctionEvent] = []
    if activities:
        ran, calls = add_device_events(activities, begin, len(raw_events), all_events, by_number)
        ran = [e for e in ran if not pauses.covers("cuda", e.call or e, begin)]
        calls = [c for c in calls if not pauses.covers("cuda", c, begin)]
        if kinds is not None:
            kept = {CATEGORIES["CUDA"][kind] for kind in kinds}
            ran = [e for e in ran if e.activity in kept]
            calls = [c for c in calls if c.activity in kept]
        all_events = sorted([*all_events, *calls], key=_in_order)
        if lost:
            warnings.warn(f"profile: {lost:,} activities of GPUs had no room and are not shown; "
                          "record fewer steps at a time", stacklevel=4)  # fmt: skip
    threads: dict[int, list[FunctionEvent]] = {}
    for event in all_events:
        threads.setdefault(event.thread, []).append(event)
    for events in threads.values():
        _nest(events)
    _link(all_events)
    if ran:
        name_waits(waits, calls)
        link_device_events(ran)
    all_events.sort(key=_in_order)
    history = read_memory(session, begin, all_events, memory_before)
    all_events = sorted([*all_events, *ran], key=_in_order) if ran else all_events
    if others := _worker_events(workers, begin, stop, max(threads, default=0)):
        for number, event in enumerate(others, len(all_events) + 1):
            event.id = event.external_id = number
        all_events = sorted([*all_events, *others], key=_in_order)
    first = next((e for e in all_events if not e.on_device and e.process is None), None)
    main = 0 if first is None else first.system_thread
    if outside := _outside_events(history, 1 if first is None else first.thread):
        for number, event in enumerate(outside, len(all_events) + 1):
            event.id = event.external_id = number
            event.system_thread = main
        all_events = sorted([*all_events, *outside], key=_in_order)
    found = EventList(all_events, use_device="cuda" if ran else None,
                      profile_memory=profile_memory, with_flops=with_flops)  # fmt: skip
    found.wall_begin = wall
    found.memory = history
    found.time_range = Interval(0.0, (stop - begin) / 1000)
    return found
