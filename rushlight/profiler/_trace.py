"""Events as a Chrome trace, in the layout of PyTorch's: Perfetto and TensorBoard read it."""

from __future__ import annotations

import gzip
import json
import os
import socket
from typing import Any

from rushlight.profiler._memory import CATEGORIES
from rushlight.types import FileLike

__all__ = ["write_trace"]


def _category(event):
    if event.is_user_annotation:
        return "user_annotation"
    return "python_function" if event.is_python_function else "cpu_op"


def _arguments(event, number):
    args: dict[str, Any] = {"External id": event.id, "Ev Idx": number}
    if event.sequence_nr >= 0:
        args["Sequence number"] = event.sequence_nr
        args["Fwd thread id"] = event.fwd_thread
    if event.structured_input_shapes:
        args["Concrete Inputs"] = ["" if v is None else str(v) for v in event.concrete_inputs]
        args["Input type"] = event.input_dtypes
        args["Input Strides"] = event.structured_input_strides
        args["Input Dims"] = event.structured_input_shapes
    if event.stack:
        args["Call stack"] = ";".join(event.stack)
    if event.module is not None:
        args["Module Hierarchy"] = event.module
    if event.flops:
        args["flops"] = event.flops
    if event.bytes:
        args["bytes"] = event.bytes
    if event.cpu_memory_usage:
        args["CPU bytes"] = event.cpu_memory_usage
    if event.failed:
        args["failed"] = True
    if not event.finished:
        args["finished"] = False
    return args


def _names(pid, threads):
    """Names of the process and of its threads."""
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "ts": 0,
           "args": {"name": "python"}}  # fmt: skip
    yield {"ph": "M", "name": "process_labels", "pid": pid, "tid": 0, "ts": 0,
           "args": {"labels": "CPU"}}  # fmt: skip
    for thread in threads:
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": thread, "ts": 0,
               "args": {"name": f"thread {thread}"}}  # fmt: skip


def _arrows(events, pid):
    """From the ops of forward to the nodes of backward that they recorded."""
    number = 0
    for event in events:
        if event.forward is None or event.scope != 1:
            continue
        number += 1
        yield {"ph": "s", "id": number, "pid": pid, "tid": event.forward.system_thread,
               "ts": event.forward.time_range.start, "cat": "fwdbwd",
               "name": "fwdbwd"}  # fmt: skip
        yield {"ph": "f", "id": number, "pid": pid, "tid": event.system_thread,
               "ts": event.time_range.start, "cat": "fwdbwd", "name": "fwdbwd",
               "bp": "e"}  # fmt: skip


def _memory(history, thread, pid):
    """Blocks as they come and go: points in time, with what is live of the device by then."""
    live = dict(history.before)
    for time, device, change, block in history.changes:
        if device == "meta":
            continue
        live[device] = live.get(device, 0) + change
        event = block.event if change > 0 else block.freed_in
        kind, _, index = device.partition(":")
        yield {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": pid,
               "tid": thread if event is None else event.system_thread, "ts": time,
               "args": {"Total Reserved": 0, "Total Allocated": live[device], "Bytes": change,
                        "Addr": block.address, "Device Id": int(index or -1),
                        "Device Type": int(kind == "cuda"),
                        "Category": CATEGORIES[block.category]}}  # fmt: skip


def _lines(events, pid):
    yield from _names(pid, dict.fromkeys(e.system_thread for e in events))
    yield {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans",
           "tid": "PyTorch Profiler", "ts": events.time_range.start,
           "dur": events.time_range.elapsed_us(), "args": {"Op count": len(events)}}  # fmt: skip
    main = events[0].system_thread if events else pid
    if events.memory is not None:
        yield from _memory(events.memory, main, pid)
    for number, event in enumerate(events):
        if event.name == "[memory]":
            continue
        yield {"ph": "X", "cat": _category(event), "name": event.trace_name, "pid": pid,
               "tid": event.system_thread, "ts": event.time_range.start,
               "dur": round(event.time_range.elapsed_us(), 3),
               "args": _arguments(event, number)}  # fmt: skip
    yield from _arrows(events, pid)


def write_trace(path: FileLike, events: Any, metadata: dict[str, Any]) -> None:
    """Writes the file, packed where its name ends in .gz."""
    name: Any = os.fspath(path)
    head = {
        "schemaVersion": 1,
        "deviceProperties": [],
        "host_name": socket.gethostname(),
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": events.wall_begin,
        **metadata,
        "traceName": str(name),
    }
    opener: Any = gzip.open if str(name).endswith(".gz") else open
    encode = json.JSONEncoder(separators=(",", ":")).encode
    with opener(name, "wt", encoding="utf-8") as file:
        file.write(encode(head)[:-1] + ',"traceEvents":[\n')
        for i, line in enumerate(_lines(events, os.getpid())):
            file.write((",\n" if i else "") + encode(line))
        file.write("\n]}\n")
