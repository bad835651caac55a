"""Events as a Chrome trace, in the layout of PyTorch's: Perfetto and TensorBoard read it."""

from __future__ import annotations

import gzip
import json
import os
import socket
from typing import Any

from rushlight.profiler._memory import CATEGORIES
from rushlight.profiler._settings import CATEGORIES as KINDS
from rushlight.types import FileLike

__all__ = ["distributed_info", "write_trace"]


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
    if event.device_call:
        args["correlation"] = event.correlation
    if event.failed:
        args["failed"] = True
    if not event.finished:
        args["finished"] = False
    return args


def _device_arguments(event):
    args = {"External id": event.external_id, "device": event.device_index, "context": 1,
            "stream": event.thread, "correlation": event.correlation, **event.launch}  # fmt: skip
    time = event.time_range.elapsed_us()
    if event.bytes:
        args["bytes"] = event.bytes
        if time > 0 and event.activity != "kernel":
            args["memory bandwidth (GB/s)"] = event.bytes / time / 1000
    return args


def _device_names(events):
    """Each GPU is a process of its own, and its streams are the threads."""
    streams: dict[int, set[int]] = {}
    for event in events:
        streams.setdefault(event.device_index, set()).add(event.thread)
    for device, found in sorted(streams.items()):
        about = {"process_name": {"name": "python"}, "process_labels": {"labels": f"GPU {device}"},
                 "process_sort_index": {"sort_index": 5_000_000 + device}}  # fmt: skip
        for name, args in about.items():
            yield {"ph": "M", "name": name, "pid": device, "tid": 0, "ts": 0, "args": args}
        for stream in sorted(found):
            yield {"ph": "M", "name": "thread_name", "pid": device, "tid": stream, "ts": 0,
                   "args": {"name": f"stream {stream}"}}  # fmt: skip


def _launches(events, pid):
    """From the calls that queue work to the work."""
    for event in events:
        call = event.call
        if call is None:
            continue
        common = {"id": event.correlation, "cat": "ac2g", "name": "ac2g"}
        yield {"ph": "s", "pid": pid, "tid": call.system_thread, "ts": call.time_range.start,
               **common}  # fmt: skip
        yield {"ph": "f", "pid": event.device_index, "tid": event.thread,
               "ts": event.time_range.start, "bp": "e", **common}  # fmt: skip


def _ranges_on_devices(events):
    """Ranges that the program names, as long as what was queued in them took on a stream."""
    found: dict[tuple[int, int, int], list[Any]] = {}
    for event in events:
        at = event.launcher
        while at is not None:
            if at.is_user_annotation:
                key = (at.id, event.device_index, event.thread)
                start, end = event.time_range.start, event.time_range.end
                span = found.setdefault(key, [at, start, end])
                span[1], span[2] = min(span[1], start), max(span[2], end)
            at = at.cpu_parent
    for (number, device, stream), (event, start, end) in found.items():
        yield {"ph": "X", "cat": "gpu_user_annotation", "name": event.trace_name, "pid": device,
               "tid": stream, "ts": start, "dur": round(end - start, 3),
               "args": {"External id": number}}  # fmt: skip


def _device_lines(events, pid):
    yield from _device_names(events)
    for event in events:
        yield {"ph": "X", "cat": event.activity, "name": event.trace_name,
               "pid": event.device_index, "tid": event.thread, "ts": event.time_range.start,
               "dur": round(event.time_range.elapsed_us(), 3),
               "args": _device_arguments(event)}  # fmt: skip
    yield from _ranges_on_devices(events)
    yield from _launches(events, pid)


def _names(pid, threads):
    """Names of the process and of its threads."""
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "ts": 0,
           "args": {"name": "python"}}  # fmt: skip
    yield {"ph": "M", "name": "process_labels", "pid": pid, "tid": 0, "ts": 0,
           "args": {"labels": "CPU"}}  # fmt: skip
    for thread in threads:
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": thread, "ts": 0,
               "args": {"name": f"thread {thread}"}}  # fmt: skip


def _worker_names(events):
    """Workers of loaders are processes of their own."""
    workers = {e.process: (e.worker, e.system_thread) for e in events if e.process is not None}
    for process, (worker, thread) in workers.items():
        for name, args in (("process_name", {"name": f"DataLoader worker {worker}"}),
                           ("process_labels", {"labels": "CPU"}),
                           ("thread_name", {"name": f"thread {thread}"})):  # fmt: skip
            tid = thread if name == "thread_name" else 0
            yield {"ph": "M", "name": name, "pid": process, "tid": tid, "ts": 0, "args": args}


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
    on_devices = [e for e in events if e.on_device]
    on_host = [e for e in events if not e.on_device]
    yield from _names(pid, dict.fromkeys(e.system_thread for e in on_host if e.process is None))
    yield from _worker_names(on_host)
    yield {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans",
           "tid": "PyTorch Profiler", "ts": events.time_range.start,
           "dur": events.time_range.elapsed_us(), "args": {"Op count": len(events)}}  # fmt: skip
    main = next((e.system_thread for e in on_host if e.process is None), pid)
    if events.memory is not None:
        yield from _memory(events.memory, main, pid)
    for number, event in enumerate(events):
        if event.name == "[memory]" or event.on_device:
            continue
        yield {"ph": "X", "cat": event.activity_type, "name": event.trace_name,
               "pid": pid if event.process is None else event.process,
               "tid": event.system_thread, "ts": event.time_range.start,
               "dur": round(event.time_range.elapsed_us(), 3),
               "args": _arguments(event, number)}  # fmt: skip
    yield from _arrows(events, pid)
    if on_devices:
        yield from _device_lines(on_devices, pid)


def _properties(events):
    """What the GPUs are that something ran on."""
    from rushlight import cuda

    found = []
    for device in sorted({e.device_index for e in events if e.on_device}):
        about = cuda.get_device_properties(device)
        found.append({"id": device, "name": about.name, "totalGlobalMem": about.total_memory,
                      "computeMajor": about.major, "computeMinor": about.minor,
                      "warpSize": 32, "numSms": about.multi_processor_count})  # fmt: skip
    return found


def distributed_info() -> dict[str, Any] | None:
    """Which process of a job this is: tools that read the traces of all ranks tell them apart by
    it."""
    from rushlight import distributed

    if not distributed.is_available() or not distributed.is_initialized():
        return None
    return {"backend": distributed.get_backend(), "rank": distributed.get_rank(),
            "world_size": distributed.get_world_size(),
            "pg_count": distributed.get_pg_count()}  # fmt: skip


def _left_out(filters):
    """Categories of lines that the filters of activities do not name; arrows go with what they
    come from."""
    found = set()
    for group, kept in filters.items():
        of_group = {c for c in KINDS.get(group, {}).values() if c}
        names = {KINDS[group][name] for name in kept}
        if group == "CPU":  # calls of the driver are shown unless CUDA's filter leaves them out
            of_group -= {"cuda_runtime", "cuda_driver"}
        found |= of_group - names
    if "cpu_op" in found:
        found.add("fwdbwd")
    if "cuda_driver" in found or found >= {"kernel", "gpu_memcpy", "gpu_memset"}:
        found.add("ac2g")
    return found


def write_trace(
    path: FileLike,
    events: Any,
    metadata: dict[str, Any],
    filters: dict[str, set[str]] | None = None,
) -> None:
    """Writes the file, packed where its name ends in .gz; `filters` has the kinds of an activity's
    events that are wanted, by its name."""
    name: Any = os.fspath(path)
    out = _left_out(filters or {})
    head = {
        "schemaVersion": 1,
        "deviceProperties": _properties(events),
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
        lines = (e for e in _lines(events, os.getpid()) if e.get("cat") not in out)
        for i, line in enumerate(lines):
            file.write((",\n" if i else "") + encode(line))
        file.write("\n]}\n")
