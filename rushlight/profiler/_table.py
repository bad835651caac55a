"""Averages as a table, in the columns of PyTorch's."""

from __future__ import annotations

from typing import Any

__all__ = ["build_table", "format_memory", "format_time"]

_UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}
_WIDTH = 12


def format_time(us: float, unit: str | None = None) -> str:
    """Microseconds in `unit`, or in the one that suits them."""
    if unit is None:
        unit = next((u for u, size in _UNITS.items() if us >= size), "us")
    elif unit not in _UNITS:
        raise ValueError(f"table: time_unit must be one of {', '.join(_UNITS)}, not {unit!r}")
    return f"{us / _UNITS[unit]:.3f}{unit}"


def format_memory(n: int) -> str:
    """Bytes in the unit that suits them."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(n) >= size:
            return f"{n / size:.2f} {unit}"
    return f"{n} B"


def _share(part, whole):
    if whole == 0:
        return "NaN" if part else "0.00%"
    return f"{100 * part / whole:.2f}%"


def _flops_unit(counts):
    """Name and size of the unit in which the smallest count has a few digits."""
    units = ["FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs"]
    smallest = min(counts)
    at = 0
    while at < len(units) - 1 and smallest >= 1000 ** (at + 1):
        at += 1
    return units[at], 1000**at


def _shortened(text, width):
    return text if len(text) <= width else text[: width - 3] + "..."


def _column_width(texts, title, most):
    """As wide as the longest text asks for, with some room; never wider than `most`."""
    return min(max([len(title), *(len(t) for t in texts)]) + 4, most)


def build_table(
    events: Any,
    sort_by: str | None = None,
    header: str | None = None,
    row_limit: int = 100,
    max_src_column_width: int = 75,
    max_name_column_width: int = 55,
    max_shapes_column_width: int = 80,
    with_flops: bool = False,
    profile_memory: bool = False,
    top_level_events_only: bool = False,
    time_unit: str | None = None,
) -> str:
    """The text that EventList.table returns."""
    if len(events) == 0:
        return ""
    total = sum(e.self_cpu_time_total for e in events)
    on_device = sum(e.self_device_time_total for e in events if e.device_type.name != "CPU")
    rows = list(events)
    if sort_by is not None:
        for name in ("cuda", "xpu", "privateuse1"):
            sort_by = sort_by.replace(name, "device")
        rows.sort(key=lambda e: getattr(e, sort_by), reverse=True)
    if top_level_events_only:
        rows = [e for e in rows if e.cpu_parent is None]

    def time(us):
        return format_time(us, time_unit)

    has_overloads = any(e.overload_name for e in events)
    has_shapes = any(e.input_shapes for e in events)
    has_stacks = any(e.stack for e in events)
    # Each column: title, width, text of a row.
    columns: list[tuple[str, int, Any]] = [
        (
            "Name",
            _column_width([e.key for e in events], "Name", max_name_column_width),
            lambda e: e.key,
        )
    ]
    if has_overloads:
        columns.append(("Overload Name", _WIDTH + 1, lambda e: e.overload_name))
    columns += [
        ("Self CPU %", _WIDTH, lambda e: _share(e.self_cpu_time_total, total)),
        ("Self CPU", _WIDTH, lambda e: time(e.self_cpu_time_total)),
        ("CPU total %", _WIDTH, lambda e: _share(e.cpu_time_total, total)),
        ("CPU total", _WIDTH, lambda e: time(e.cpu_time_total)),
        ("CPU time avg", _WIDTH, lambda e: time(e.cpu_time)),
    ]
    if on_device:
        columns += [
            ("Self CUDA", _WIDTH, lambda e: time(e.self_device_time_total)),
            ("Self CUDA %", _WIDTH, lambda e: _share(e.self_device_time_total, on_device)),
            ("CUDA total", _WIDTH, lambda e: time(e.device_time_total)),
            ("CUDA time avg", _WIDTH + 1, lambda e: time(e.device_time)),
        ]
    if profile_memory:
        columns += [
            ("CPU Mem", _WIDTH, lambda e: format_memory(e.cpu_memory_usage)),
            ("Self CPU Mem", _WIDTH, lambda e: format_memory(e.self_cpu_memory_usage)),
        ]
        if any(e.device_memory_usage for e in events):
            columns += [
                ("CUDA Mem", _WIDTH, lambda e: format_memory(e.device_memory_usage)),
                ("Self CUDA Mem", _WIDTH + 1, lambda e: format_memory(e.self_device_memory_usage)),
            ]
    columns.append(("# of Calls", _WIDTH, lambda e: str(e.count)))
    if has_shapes:
        shapes = [str(e.input_shapes) for e in events]
        width = _column_width(shapes, "Input Shapes", max_shapes_column_width)
        columns.append(("Input Shapes", width, lambda e: str(e.input_shapes)))
    if has_stacks:
        lines = [line for e in events for line in e.stack or []]
        width = _column_width(lines, "Source Location", max_src_column_width)
        columns.append(("Source Location", width, lambda e: e.stack[0] if e.stack else ""))
    if with_flops:
        counts = [e.flops for e in events if e.flops and e.flops > 0]
        unit, size = _flops_unit(counts) if counts else ("FLOPs", 1)
        columns.append(
            (f"Total {unit}", _WIDTH, lambda e: f"{e.flops / size:.3f}" if e.flops else "--")
        )

    def line(texts):
        return "".join(
            f"{_shortened(text, width):>{width}}  "
            for text, (_, width, _) in zip(texts, columns, strict=True)
        )

    rule = "".join("-" * width + "  " for _, width, _ in columns)
    out = []
    if header is not None:
        out += ["=" * len(rule), header]
    if top_level_events_only:
        out += ["=" * len(rule), "Only the outermost events are shown"]
    out += [rule, line([title for title, _, _ in columns]), rule]
    for row in rows[:row_limit] if row_limit >= 0 else rows:
        out.append(line([text(row) for _, _, text in columns]))
        if has_stacks:  # the other lines of the stack below the first
            at = next(i for i, (title, _, _) in enumerate(columns) if title == "Source Location")
            for more in (row.stack or [])[1:]:
                out.append(line([more if i == at else "" for i in range(len(columns))]))
    out += [rule, f"Self CPU time total: {time(total)}"]
    out += [f"Self CUDA time total: {time(on_device)}", ""] if on_device else [""]
    return "\n".join(out)
