"""What a report shows, as plain data: columns of numbers for the page, rows of tables."""

from __future__ import annotations

import array
import base64
import sys
import zlib
from typing import Any

from rushlight.profiler._breakdown import KINDS, Breakdown, is_range
from rushlight.profiler._memory import CATEGORIES, OTHER, MemoryHistory
from rushlight.profiler._peaks import Peaks

__all__ = ["Columns", "Strings", "flame", "roofline", "tables", "threads_and_events"]

_KINDS = list(KINDS)
_TYPES = {"f64": "d", "f32": "f", "u32": "I", "u16": "H", "u8": "B"}
_SMALLEST = 5e-4  # what takes less of all time has no box in the flame graph
_BACKWARD = "autograd::engine"


class Columns:
    """Arrays in one buffer, each at a multiple of eight bytes, packed and printable."""

    def __init__(self) -> None:
        self.layout: list[tuple[str, str, int, int]] = []  # name, type, offset, length
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, name: str, kind: str, values: Any) -> None:
        """Adds an array of a type: f64, f32, u32, u16 or u8."""
        numbers = array.array(_TYPES[kind], values)
        if sys.byteorder == "big":
            numbers.byteswap()
        data = numbers.tobytes()
        self.layout.append((name, kind, self._size, len(numbers)))
        data += bytes(-len(data) % 8)
        self._parts.append(data)
        self._size += len(data)

    def packed(self) -> str:
        """All of them as text."""
        return base64.b64encode(zlib.compress(b"".join(self._parts), 6)).decode("ascii")


class Strings:
    """Texts by number; the same text has the same number."""

    def __init__(self, *first: str) -> None:
        self.all = list(first)
        self._numbers = {text: i for i, text in enumerate(first)}

    def number(self, text: str | None) -> int:
        """The number of a text; None is the empty one."""
        text = text or ""
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.all)
            self.all.append(text)
        return found


def _kind_number(event: Any, times: Breakdown) -> int:
    """For the colour; what only holds other events together has none."""
    if event.on_device:
        return _KINDS.index("compute" if event.activity == "kernel" else "memory")
    kind = times.kind_of.get(event.id)
    if kind is None or (is_range(event) and kind == "python"):
        return len(_KINDS)
    if kind == "overhead" and event.self_cpu_time_total < 0.5 * event.cpu_time_total:
        return len(_KINDS)
    return _KINDS.index(kind)


def _lane_name(event: Any, times: Breakdown) -> str:
    if event.on_device:
        return f"GPU {event.device_index}, stream {event.thread}"
    if event.process is not None:
        return f"loader worker {event.worker} (process {event.process})"
    main = " (the loop)" if event.thread == times.thread else ""
    return f"thread {event.system_thread}{main}"


def threads_and_events(
    events: Any, times: Breakdown, columns: Columns, names: Strings, modules: Strings,
    sources: Strings,
) -> list[dict[str, Any]]:  # fmt: skip
    """Adds the columns of the time line; the threads with their numbers of rows."""
    threads: dict[tuple[int, int], int] = {}
    ends: list[list[float]] = []  # by thread and depth, where the last event ends
    depth_of: dict[int, int] = {}
    labels: list[str] = []
    rows: dict[str, list[Any]] = {
        name: []
        for name in ("start", "duration", "name", "thread", "depth", "module", "source", "kind",
                     "flops", "bytes", "children")
    }  # fmt: skip
    for event in events:
        if event.name == "[memory]":
            continue
        lane = (event.device_index if event.on_device else event.process or -1, event.thread)
        thread = threads.get(lane)
        if thread is None:
            thread = threads[lane] = len(ends)
            ends.append([])
            labels.append(_lane_name(event, times))
        start, end = event.time_range.start, event.time_range.end
        depth = 0 if event.cpu_parent is None else depth_of[event.cpu_parent.id] + 1
        # Ranges may overlap without one being inside the other: then they have different rows.
        while depth < len(ends[thread]) and ends[thread][depth] > start:
            depth += 1
        if depth >= len(ends[thread]):
            ends[thread].extend([0.0] * (depth + 1 - len(ends[thread])))
        ends[thread][depth] = end
        depth_of[event.id] = depth
        rows["start"].append(start)
        rows["duration"].append(end - start)
        rows["name"].append(names.number(event.trace_name))
        rows["thread"].append(thread)
        rows["depth"].append(depth)
        rows["module"].append(modules.number(event.module))
        rows["source"].append(sources.number(event.source))
        rows["kind"].append(_kind_number(event, times))
        rows["flops"].append(event.flops or 0)
        rows["bytes"].append(event.bytes)
        rows["children"].append(len(event.cpu_children))
    kinds = {"start": "f64", "thread": "u16", "depth": "u16", "kind": "u8", "flops": "f64",
             "bytes": "f64", "duration": "f64"}  # fmt: skip
    for name, values in rows.items():
        columns.add(name, kinds.get(name, "u32"), values)
    return [{"label": label, "depth": len(ends[i])} for i, label in enumerate(labels)]


def memory(
    history: MemoryHistory, columns: Columns, names: Strings, sources: Strings
) -> dict[str, Any] | None:
    """Adds the columns of memory over time and of blocks; None where nothing was recorded."""
    if not history.changes:
        return None
    devices = []
    for device in dict.fromkeys(d for _, d, _, _ in history.changes if d != "meta"):
        changes = [(t, c, b.category) for t, d, c, b in history.changes if d == device]
        blocks = [b for b in history.blocks if b.device == device]
        before = [0] * len(CATEGORIES)
        for block in blocks:
            if block.begin is None:
                before[block.category] += block.bytes
        before[OTHER] += max(0, history.before.get(device, 0) - sum(before))
        for name, kind, values in (
            ("time", "f64", [t for t, _, _ in changes]),
            ("change", "f64", [c for _, c, _ in changes]),
            ("category", "u8", [k for _, _, k in changes]),
            ("block_begin", "f64", [-1.0 if b.begin is None else b.begin for b in blocks]),
            ("block_end", "f64", [float("inf") if b.end is None else b.end for b in blocks]),
            ("block_size", "f64", [b.bytes for b in blocks]),
            ("block_category", "u8", [b.category for b in blocks]),
            ("block_source", "u32", [sources.number(b.source) for b in blocks]),
            ("block_name", "u32",
             [names.number(None if b.event is None else b.event.trace_name) for b in blocks]),
        ):  # fmt: skip
            columns.add(f"{device}.{name}", kind, values)
        devices.append({"name": device, "before": before})
    return {"categories": list(CATEGORIES), "devices": devices} if devices else None


def flame(events: Any, times: Breakdown, names: Strings) -> list[Any]:
    """The calls of the loop's thread laid over each other: nodes of [name, time, own time, calls,
    kind, children]; boxes too small to be seen are left out."""
    root: list[Any] = [-1, 0.0, 0.0, 1, len(_KINDS), {}]
    nodes: dict[int, list[Any]] = {}
    whole = 0.0
    for event in events:
        if event.thread != times.thread or event.on_device or event.name == "[memory]":
            continue
        parent = root if event.cpu_parent is None else nodes[event.cpu_parent.id]
        name = names.number(event.name)
        node = parent[5].get(name)
        if node is None:
            fresh: list[Any] = [name, 0.0, 0.0, 0, _kind_number(event, times), {}]
            node = parent[5][name] = fresh
        nodes[event.id] = node
        time = event.cpu_time_total
        node[1] += time
        node[2] += event.self_cpu_time_total
        node[3] += 1
        if event.cpu_parent is None:
            whole += time
    root[1] = whole

    def finished(node):
        kept = [n for n in node[5].values() if n[1] >= _SMALLEST * whole]
        kept.sort(key=lambda n: -n[1])
        return [
            node[0],
            round(node[1], 3),
            round(node[2], 3),
            *node[3:5],
            list(map(finished, kept)),
        ]

    return finished(root)


def _outermost(event: Any) -> bool:
    """Whether no event around it has the same name (a module that calls itself counts once)."""
    at = event.cpu_parent
    while at is not None:
        if at.key == event.key:
            return False
        at = at.cpu_parent
    return True


def _op_table(events: Any, total: float) -> dict[str, Any]:
    rows: dict[str, list[float]] = {}
    for e in events:
        if is_range(e) or e.name == "[memory]":
            continue
        row = rows.setdefault(e.key, [0.0] * 6)  # calls, total, self, flops, bytes, memory
        row[0] += 1
        row[1] += e.cpu_time_total if _outermost(e) else 0.0
        row[2] += e.self_cpu_time_total
        row[3] += e.flops or 0
        row[4] += e.bytes
        row[5] += max(0, e.self_cpu_memory_usage)
    return {
        "title": "Ops",
        "note": "Itself: without the ops inside it.",
        "columns": [["op", "text"], ["calls", "count"], ["total", "time"], ["itself", "time"],
                    ["of all", "share"], ["per call", "time"], ["operations", "flops"],
                    ["reached", "flop_rate"], ["moved", "bytes"], ["reached", "byte_rate"],
                    ["allocated", "bytes"]],
        "rows": [[name, n, t, own, own / total if total else 0, t / n, flops,
                  1e6 * flops / t if t else 0, moved, 1e6 * moved / t if t else 0, memory]
                 for name, (n, t, own, flops, moved, memory) in rows.items()],
        "sort": 3,
    }  # fmt: skip


def _in_backward(event: Any) -> bool:
    at = event
    while at is not None:
        if at.name.startswith(_BACKWARD):
            return True
        at = at.cpu_parent
    return False


def _module_table(events: Any, total: float) -> dict[str, Any] | None:
    """Times of modules with everything below them: those of paths that begin with theirs."""
    own: dict[str, list[float]] = {}  # calls, forward, backward, flops, allocated
    kinds: dict[str, str] = {}
    for e in events:
        if e.module is None:
            continue
        row = own.setdefault(e.module, [0.0] * 5)
        if e.is_python_function:
            row[0] += 1
            kinds[e.module] = e.name.rpartition("(")[2].rstrip(")")
            if e.name == f"nn.Module: {e.module}":
                kinds[e.module] = e.module
        backward = _in_backward(e)
        row[2 if backward else 1] += e.self_cpu_time_total
        row[3] += e.flops or 0
        row[4] += max(0, e.self_cpu_memory_usage)
    if not own:
        return None
    # The outermost module is named by its class and has no path: all belong to it.
    roots = [path for path in own if kinds.get(path) == path]
    sums = {path: list(row) for path, row in own.items()}
    for path, row in own.items():
        above = path
        parents = list(roots) if path not in roots and len(roots) == 1 else []
        while "." in above:
            above = above.rpartition(".")[0]
            parents.append(above)
        for parent in parents:
            goal = sums.setdefault(parent, [0.0] * 5)
            for k in range(1, 5):
                goal[k] += row[k]
    return {
        "title": "Modules",
        "note": "With all modules inside them. Backward belongs to the module of the op that it "
                "is the backward of.",
        "columns": [["module", "text"], ["kind", "text"], ["calls", "count"], ["forward", "time"],
                    ["backward", "time"], ["both", "time"], ["of all", "share"],
                    ["operations", "flops"], ["allocated", "bytes"]],
        "rows": [[path, kinds.get(path, ""), n, f, b, f + b, (f + b) / total if total else 0,
                  flops, memory]
                 for path, (n, f, b, flops, memory) in sums.items()],
        "sort": 5,
    }  # fmt: skip


def _line_table(events: Any, total: float) -> dict[str, Any]:
    rows: dict[str, list[float]] = {}
    for e in events:
        if e.source is None or is_range(e):
            continue
        row = rows.setdefault(e.source, [0.0] * 4)  # calls, time, backward, allocated
        row[0] += e.cpu_parent is None or is_range(e.cpu_parent)
        row[1] += e.self_cpu_time_total
        row[2] += e.self_cpu_time_total if _in_backward(e) else 0.0
        row[3] += max(0, e.self_cpu_memory_usage)
    return {
        "title": "Lines",
        "note": "Time of ops by the line of the program that called them; backward belongs to the "
                "line that called it.",
        "columns": [["line", "text"], ["calls", "count"], ["time", "time"], ["of all", "share"],
                    ["of it backward", "time"], ["allocated", "bytes"]],
        "rows": [[line, n, t, t / total if total else 0, back, memory]
                 for line, (n, t, back, memory) in rows.items()],
        "sort": 2,
    }  # fmt: skip


def _kernel_table(events: Any) -> dict[str, Any] | None:
    """What ran on GPUs, by name."""
    rows: dict[str, list[Any]] = {}
    for e in events:
        if e.on_device:
            row = rows.setdefault(e.name, [0, 0.0, 0, ""])  # calls, time, bytes, by
            row[0] += 1
            row[1] += e.device_time_total
            row[2] += e.bytes
            row[3] = row[3] or (e.launcher.name if e.launcher is not None else "")
    total = sum(row[1] for row in rows.values())
    return {
        "title": "Kernels and copies",
        "note": "What GPUs ran, by their own clocks, and the op that queued it first.",
        "columns": [["name", "text"], ["queued by", "text"], ["calls", "count"], ["total", "time"],
                    ["of all", "share"], ["per call", "time"], ["moved", "bytes"]],
        "rows": [[name, by, n, t, t / total if total else 0, t / n, moved]
                 for name, (n, t, moved, by) in rows.items()],
        "sort": 3,
    } if rows else None  # fmt: skip


def tables(events: Any, times: Breakdown) -> list[dict[str, Any]]:
    """The tables by module, by op, by line, and of what GPUs ran."""
    mine = [e for e in events if e.id in times.kind_of]
    found = [_module_table(mine, times.total), _op_table(mine, times.total),
             _line_table(mine, times.total), _kernel_table(events)]  # fmt: skip
    return [table for table in found if table is not None]


def roofline(events: Any, peaks: Peaks | None) -> dict[str, Any]:
    """Ops by name and shapes, with what they reach."""
    points: dict[tuple[str, str], dict[str, Any]] = {}
    for e in events:
        if not e.flops or not e.bytes or e.cpu_time_total <= 0 or e.device_time_total:
            continue  # what the host took to queue work says nothing about the work
        shapes = str(e.input_shapes) if e.input_shapes else ""
        point = points.setdefault(
            (e.name, shapes),
            {"name": e.name, "shapes": shapes, "flops": 0, "bytes": 0, "time": 0.0, "count": 0},
        )
        point["flops"] += e.flops
        point["bytes"] += e.bytes
        point["time"] += e.cpu_time_total
        point["count"] += 1
    found = sorted(points.values(), key=lambda p: -p["time"])[:300]
    if peaks is None:
        return {"points": [], "peaks": {"flops": 1, "bytes": 1, "threads": 1}}
    # A machine that was busy while it was measured has been faster since.
    flops = max([peaks.flops, *(1e6 * p["flops"] / p["time"] for p in found)])
    return {
        "points": found,
        "peaks": {"flops": flops, "bytes": peaks.bytes, "threads": peaks.threads},
    }
