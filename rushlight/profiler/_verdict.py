"""What bounds a program, by how much, and what to change: in words."""

from __future__ import annotations

import bisect
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rushlight import _C
from rushlight.profiler._breakdown import KINDS, Breakdown, is_copy, is_range
from rushlight.profiler._device import CAUSES, DeviceTimes, device_times
from rushlight.profiler._memory import CATEGORIES, Block, MemoryHistory
from rushlight.profiler._peaks import Peaks
from rushlight.profiler._table import format_memory

__all__ = ["Finding", "Verdict", "judge", "left_behind"]


def format_time(us: float) -> str:
    """Three digits and the unit that suits them, as one writes in a sentence."""
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if us >= size:
            return f"{us / size:.3g} {unit}" if us < 1000 * size else f"{us / size:.0f} {unit}"
    return f"{us:.3g} µs"


@dataclass
class Finding:
    """One thing to change. `gain` is how many times faster a step becomes at best."""

    title: str
    evidence: str
    advice: str
    line: str | None = None
    gain: float = 1.0

    def __str__(self) -> str:
        parts = [f"{self.title}. {self.evidence}"]
        if self.line:
            parts.append(f"at {self.line}")
        gain = f" (up to {self.gain:.2f} times as fast)" if self.gain >= 1.01 else ""
        parts.append(f"-> {self.advice}{gain}")
        return "\n    ".join(parts)


@dataclass
class Verdict:
    """The headline, where the time went, and the findings, those with the largest gain first."""

    headline: str
    shares: dict[str, float]
    findings: list[Finding] = field(default_factory=list)
    devices: list[DeviceTimes] = field(default_factory=list)

    def __str__(self) -> str:
        shares = sorted(self.shares.items(), key=lambda item: -item[1])
        spent = ", ".join(f"{KINDS[k]} {100 * s:.0f}%" for k, s in shares if s >= 0.005)
        lines = [self.headline, f"{'Host' if self.devices else 'Time'}: {spent}."]
        lines += [_describe_device(device) for device in self.devices]
        lines += [f"{i}. {finding}" for i, finding in enumerate(self.findings, 1)]
        return "\n".join(lines)


def _describe_device(times: DeviceTimes) -> str:
    idle = times.total - times.busy
    found = [(cause, us) for cause, us in times.idle_by_cause().items() if us >= 0.05 * idle]
    causes = ", ".join(f"{format_time(us)} {CAUSES[cause]}" for cause, us in found)
    said = f": {causes}" if causes else ""
    share = idle / times.total if times.total else 0.0
    return (
        f"GPU {times.device}: kernels {format_time(times.kernels)}, copies "
        f"{format_time(times.copies)}, idle {format_time(idle)} ({_percent(share)}){said}."
    )


@dataclass
class _Case:
    events: Any
    times: Breakdown
    peaks: Peaks | None
    memory: MemoryHistory | None
    devices: list[DeviceTimes]

    def without(self, us: float) -> float:
        """How many times faster the window is without some of its time."""
        rest = self.times.total - us
        return self.times.total / rest if rest > 0.02 * self.times.total else 50.0

    def mine(self) -> Iterator[Any]:
        """The events of the loop's thread, in its window."""
        return (e for e in self.events if e.id in self.times.kind_of)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def _hottest_line(events: Any) -> str | None:
    lines: dict[str, float] = {}
    for event in events:
        if event.source:
            lines[event.source] = lines.get(event.source, 0.0) + event.self_cpu_time_total
    return max(lines, key=lambda line: lines[line]) if lines else None


_IDLE_ADVICE = {
    "sync": "read values less often (item(), print, .cpu()): keep sums on the GPU and look at them "
            "every hundred steps",
    "loader": "give the DataLoader more num_workers, with pin_memory=True",
    "memory": "keep shapes the same from step to step, so that cached memory is used again",
    "overhead": "enlarge the batch, or wrap the model in rushlight.compile or a CUDA graph, so "
                "that the host keeps ahead",
    "python": "move work that is not tensors' out of the loop, or into the workers of a loader",
    "communication": "communicate while kernels run: DistributedDataParallel overlaps both",
    "queue": "kernels are short: a larger batch, or a CUDA graph, has less between them",
}  # fmt: skip


def _gpu_idle(case: _Case) -> Iterator[Finding]:
    for device in case.devices:
        idle = device.total - device.busy
        if idle < 0.1 * device.total:
            continue
        causes = device.idle_by_cause()
        cause = next(iter(causes))
        gaps = [gap for gap in device.idle if gap.cause == cause]
        lines: dict[str, float] = {}
        for gap in gaps:
            if gap.line:
                lines[gap.line] = lines.get(gap.line, 0.0) + gap.length
        longest = max(gaps, key=lambda gap: gap.length)
        yield Finding(
            f"GPU {device.device} has nothing to do for {_percent(idle / device.total)} of the "
            f"time, mostly because {CAUSES[cause]}",
            f"{len(gaps):,} gaps of this kind, {format_time(causes[cause])} together; the longest "
            f"is {format_time(longest.length)}, before {longest.before.name[:60]}",
            _IDLE_ADVICE[cause],
            max(lines, key=lambda line: lines[line]) if lines else None,
            case.without(min(causes[cause], case.times.total)),
        )


def _loader(case: _Case) -> Iterator[Finding]:
    share = case.times.share("loader")
    if share < 0.1:
        return
    waits = [e for e in case.mine() if e.name.startswith("enumerate(DataLoader)")]
    time = case.times.times["loader"]
    each = time / max(len(waits), 1)
    cores = len(os.sched_getaffinity(0))
    if any("_SingleProcess" in e.name for e in waits):
        rest = case.times.total - time
        workers = max(1, min(cores, round(time / rest) + 1 if rest else cores))
        advice = f"give the DataLoader num_workers={workers}, so that batches are made meanwhile"
    else:
        advice = (
            "the workers do not keep up: give the DataLoader more num_workers (there are "
            f"{cores} cores), or make __getitem__ and collate_fn cheaper"
        )
    yield Finding(
        f"The loop waits for data during {_percent(share)} of its time",
        f"{len(waits)} batches, {format_time(each)} of waiting each",
        advice,
        _hottest_line(waits),
        case.without(time),
    )


def _host(case: _Case) -> Iterator[Finding]:
    times = case.times
    share = times.share("overhead", "python")
    if share < 0.3:
        return
    steps = max(len(times.steps), 1)
    small = times.times["overhead"]
    if times.share("python") >= 0.15 and times.gaps:
        gap, before, after = times.gaps[0]
        where = before.source if before is not None and before.source else after.source
        yield Finding(
            f"Python runs between the ops for {_percent(times.share('python'))} of the time",
            f"the longest gap is {format_time(gap)}, before {after.name}",
            "move work that is not tensors' out of the loop, or into the workers of a loader",
            where,
            case.without(times.times["python"]),
        )
    if times.share("overhead") >= 0.2:
        ops = [e for e in case.mine() if times.kind_of[e.id] == "overhead" and not is_range(e)]
        yield Finding(
            f"Calls of small ops take {_percent(times.share('overhead'))} of the time",
            f"{times.ops // steps:,} calls per step, {format_time(times.total / max(times.ops, 1))}"
            " each on average",
            "enlarge the batch until ops take longer than their calls, or wrap the model in "
            "rushlight.compile",
            _hottest_line(ops),
            case.without(small),
        )


def _optimizer(case: _Case) -> Iterator[Finding]:
    inside = [e for e in case.mine() if e.name.startswith("Optimizer.step#")]
    calls = sum(len([c for c in e.cpu_children if not is_range(c)]) for e in inside)
    share = case.times.optimizer / case.times.total if case.times.total else 0.0
    if share < 0.1 or not inside or calls < 40 * len(inside):
        return
    yield Finding(
        f"The optimiser takes {_percent(share)} of the time with {calls // len(inside):,} small ops"
        " per step",
        f"{inside[0].name.partition('#')[2]}, {format_time(inside[0].cpu_time_total)} each",
        "leave foreach= at its default (or foreach=True): one call handles all parameters",
        inside[0].source,
        case.without(0.7 * case.times.optimizer),
    )


def _runs(case: _Case) -> Iterator[list[Any]]:
    """Ops that move memory, one straight after the other in the same place."""
    run: list[Any] = []
    for event in case.mine():
        if is_range(event) or case.times.kind_of[event.id] != "memory" or not event.bytes:
            continue
        if run and (
            event.cpu_parent is not run[-1].cpu_parent
            or event.time_range.start - run[-1].time_range.end > 50
        ):
            yield run
            run = []
        run.append(event)
    yield run


def _moving(case: _Case) -> Iterator[Finding]:
    share = case.times.share("memory")
    runs = [run for run in _runs(case) if len(run) > 1]
    saved = sum((1 - 1 / len(r)) * sum(e.cpu_time_total for e in r) for r in runs)
    if share < 0.2 or saved < 0.08 * case.times.total:
        return
    longest = max(runs, key=lambda r: sum(e.cpu_time_total for e in r))
    names = ", ".join(e.name.removeprefix("aten::") for e in longest[:4])
    moved = sum(e.bytes for r in runs for e in r)
    yield Finding(
        f"Ops that only move memory take {_percent(share)} of the time",
        f"{len(runs)} runs of them (such as {names}) read and write {format_memory(moved)}",
        "wrap the model in rushlight.compile: ops of a run become one pass over memory",
        longest[0].source,
        case.without(saved),
    )


def _copies(case: _Case) -> Iterator[Finding]:
    copies = [
        e
        for e in case.mine()
        if is_copy(e) and not (e.cpu_parent is not None and is_copy(e.cpu_parent))
    ]
    time = sum(e.cpu_time_total for e in copies)
    if time < 0.08 * case.times.total:
        return
    by_name: dict[str, int] = {}
    for event in copies:
        by_name[event.name] = by_name.get(event.name, 0) + 1
    names = ", ".join(f"{n} {name}" for name, n in sorted(by_name.items(), key=lambda i: -i[1]))
    yield Finding(
        f"Copies and conversions take {_percent(time / case.times.total)} of the time",
        names,
        "make the tensor once in the dtype and layout that is needed, outside of the loop",
        _hottest_line(copies),
        case.without(time),
    )


def _has_doubles(event: Any) -> bool:
    """Whether an argument of some dimensions is float64: Python's numbers are doubles as well, and
    change nothing."""
    given = zip(event.input_dtypes, event.input_shapes, strict=True)
    return any(dtype == "double" and shape for dtype, shape in given)


def _doubles(case: _Case) -> Iterator[Finding]:
    wide = [
        e
        for e in case.mine()
        if case.times.kind_of[e.id] in ("compute", "memory") and _has_doubles(e)
        and (e.flops or e.bytes)
    ]  # fmt: skip
    time = sum(e.cpu_time_total for e in wide)
    if time < 0.1 * case.times.total:
        return
    yield Finding(
        f"Ops in float64 take {_percent(time / case.times.total)} of the time",
        f"{len(wide)} calls, {wide[0].name} first",
        "convert what enters the model with .float(): NumPy makes float64 by default",
        wide[0].source,
        case.without(0.5 * time),
    )


def _threads(case: _Case) -> Iterator[Finding]:
    cores, threads = len(os.sched_getaffinity(0)), _C.get_num_threads()
    kernels = case.times.times["compute"] + case.times.times["memory"]
    if threads >= cores or kernels < 0.3 * case.times.total:
        return
    yield Finding(
        f"Kernels use {threads} of {cores} cores",
        f"{format_time(kernels)} of {format_time(case.times.total)} are spent in kernels",
        f"rushlight.set_num_threads({cores}), unless other programs need the cores",
        gain=case.without(kernels * (1 - threads / cores) * 0.8),
    )


def _computing(case: _Case) -> Iterator[Finding]:
    times = case.times
    kernels = times.times["compute"] + times.times["memory"]
    if case.peaks is None or times.share("compute") < 0.4 or not kernels:
        return
    reached = times.ideal / kernels
    heavy: dict[str, float] = {}
    for event in case.mine():
        if times.kind_of[event.id] == "compute" and event.flops:
            heavy[event.name] = heavy.get(event.name, 0.0) + event.cpu_time_total
    name = max(heavy, key=lambda n: heavy[n])
    events = [e for e in case.mine() if e.name == name and e.flops]
    busiest = max(events, key=lambda e: e.cpu_time_total)
    sizes = [s for s in busiest.input_shapes if s]
    shapes = f" of {' and '.join(map(str, sizes))}" if sizes else ""
    odd = any(n % 16 for s in sizes if isinstance(s, list) for n in s[:2] if isinstance(n, int))
    if reached >= 0.5:
        yield Finding(
            f"The arithmetic itself is the work: kernels reach {_percent(reached)} of the peak",
            f"{name} takes {_percent(heavy[name] / times.total)} of the time",
            "less work (smaller layers or images), or autocast to bfloat16 where the CPU "
            "multiplies it (AMX, AVX-512 BF16)",
            busiest.source,
        )
    else:
        yield Finding(
            f"Kernels reach {_percent(reached)} of what this machine measured at its best",
            f"{name}{shapes} is the longest, {format_time(busiest.cpu_time_total)}",
            "a larger batch uses the machine better"
            + (", and so do channels and features that are multiples of 16" if odd else ""),
            busiest.source,
            case.without(0.5 * (kernels - times.ideal)),
        )


def left_behind(memory: MemoryHistory, times: Breakdown) -> list[Block]:
    """Blocks that later steps made and that are still there when the last one has ended. (The first
    step makes gradients and states.)"""
    ends = [end for _, end in times.steps]
    return [
        b
        for b in memory.blocks
        if ends
        and b.begin is not None
        and ends[0] <= b.begin < ends[-1]
        and (b.end is None or b.end > ends[-1] + 1e3)
        and b.category >= CATEGORIES.index("inputs")
    ]


def _growth(case: _Case) -> Iterator[Finding]:
    steps = case.times.steps
    if case.memory is None or len(steps) < 3:
        return
    ends = [end for _, end in steps]
    lines: dict[str, dict[int, int]] = {}
    for block in left_behind(case.memory, case.times):
        step = bisect.bisect_right(ends, block.begin or 0.0)
        if block.source:
            steps_of = lines.setdefault(block.source, {})
            steps_of[step] = steps_of.get(step, 0) + block.bytes
    # Two optimisers, as those of a GAN, make two steps of every turn of the loop.
    enough = max(3, (len(steps) - 1) // 2) if len(steps) > 3 else 2
    for line, by_step in sorted(lines.items(), key=lambda i: -sum(i[1].values())):
        if len(by_step) >= enough and sum(by_step.values()) > 4096 * len(by_step):
            each = sum(by_step.values()) // len(by_step)
            yield Finding(
                f"Memory grows by {format_memory(each)} per step",
                f"tensors that {len(by_step)} steps made are still there at the end",
                "something keeps them: append loss.item() instead of loss, detach() what is kept",
                line,
            )
            return


def _unused_gradients(case: _Case) -> Iterator[Finding]:
    if any(e.scope == 1 for e in case.events):
        return
    recorded = [e for e in case.mine() if e.name.startswith("aten::") and e._node[0]]
    if len(recorded) < 5:
        return
    yield Finding(
        "Gradients are prepared that nobody asks for",
        f"{len(recorded)} ops were recorded for backward, and there is no backward",
        "put the loop under rushlight.no_grad() or inference_mode(): less memory and time",
        recorded[0].source,
    )


def _first_calls(case: _Case) -> Iterator[Finding]:
    """Libraries are loaded and kernels chosen when an op is first called."""
    steps = [e.trace_name for e in case.events if e.key == "ProfilerStep*"]
    if steps and "ProfilerStep#0" not in steps:
        return  # a schedule left them out, and what was slow has other reasons
    by_key: dict[tuple[str, str], list[Any]] = {}
    for event in case.mine():
        if not is_range(event) and event.cpu_time_total > 1000:
            by_key.setdefault((event.name, str(event.input_shapes)), []).append(event)
    late = 0.0
    worst: Any = None
    for events in by_key.values():
        if len(events) < 3:
            continue
        usual = sorted(e.cpu_time_total for e in events[1:])[(len(events) - 1) // 2]
        more = events[0].cpu_time_total - usual
        if events[0].cpu_time_total > 5 * usual:
            inside = any(case.times.kind_of.get(e.id) for e in events[0].cpu_children)
            late += 0.0 if inside else more
            worst = events[0] if worst is None or more > worst.cpu_time_total else worst
    if worst is None or late < 0.1 * case.times.total:
        return
    yield Finding(
        f"First calls take {_percent(late / case.times.total)} of the time",
        f"{worst.name} took {format_time(worst.cpu_time_total)} when it was first called: "
        "libraries are loaded and kernels chosen then",
        "leave the first steps out of the profile: schedule=rushlight.profiler.schedule(wait=1, "
        "warmup=1, active=3)",
        worst.source,
    )


_RULES: tuple[Callable[[_Case], Iterator[Finding]], ...] = (
    _gpu_idle, _loader, _host, _optimizer, _moving, _copies, _doubles, _threads, _computing,
    _growth, _unused_gradients, _first_calls,
)  # fmt: skip


def judge(events: Any, times: Breakdown, peaks: Peaks | None) -> Verdict:
    """The verdict over a recording."""
    if not times.total:
        return Verdict("Nothing was recorded.", {})
    devices = device_times(events, times)
    case = _Case(events, times, peaks, events.memory, devices)
    shares = {kind: times.share(kind) for kind in KINDS}
    groups = {
        "the host: Python and the calls of small ops": shares["python"] + shares["overhead"],
        "arithmetic": shares["compute"],
        "memory bandwidth": shares["memory"],
        "data loading": shares["loader"],
        "communication": shares["communication"],
        "the GPU": shares["device"],
    }
    bound = max(groups, key=lambda g: groups[g])
    what = f"A step of {format_time(times.total / len(times.steps))}" if times.steps else (
        f"The recording of {format_time(times.total)}")  # fmt: skip
    headline = f"{what} is bound by {bound} ({_percent(groups[bound])} of the time)."
    busy = max((device.busy / times.total for device in devices), default=0.0)
    if busy >= 0.85:
        headline = f"{what} is bound by the GPU, which is busy {_percent(busy)} of the time."
    elif devices and bound == "the GPU":
        headline = (f"{what}: host and GPU wait for each other, and the GPU is busy "
                    f"{_percent(busy)} of the time.")  # fmt: skip
    findings = [finding for rule in _RULES for finding in rule(case)]
    findings.sort(key=lambda f: -f.gain)
    return Verdict(headline, shares, findings, devices)
