"""Blocks of tensor memory: when each came and went, which op and line made it, and what it is.

The core writes down every block that comes or goes while a profile with profile_memory=True
records. What a block is for, the core cannot know: modules, optimisers and loaders are asked at
moments when they hold it, and mark it (Marks). What nobody marks is told by where it was made.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rushlight import _C
from rushlight._C import Tensor

__all__ = ["CATEGORIES", "Block", "Marks", "MemoryHistory", "read_memory"]

# In the order in which charts stack them.
CATEGORIES = ("parameters", "gradients", "optimizer states", "inputs", "activations", "temporary",
              "other")  # fmt: skip
PARAMETER, GRADIENT, STATE, INPUT, ACTIVATION, TEMPORARY, OTHER = range(7)

_RECORD = struct.Struct("6q")
_MARK = 1 << 16
_DEVICES = ("cpu", "cuda", "meta")


@dataclass(slots=True)
class Block:
    """Memory from `begin` to `end` (microseconds; None: it was there before, or is there still)."""

    address: int
    bytes: int
    device: str
    begin: float | None = None
    end: float | None = None
    event: Any = None  # the op, node or range that made it, if it was made during the profile
    freed_in: Any = None  # the one that freed it
    category: int = -1
    line: tuple[str, int, str] | None = None  # file, line, function

    @property
    def source(self) -> str | None:
        """The program's line that made it."""
        if self.event is not None and self.event.source:
            return self.event.source
        return None if self.line is None else "{}({}): {}".format(*self.line)


@dataclass
class MemoryHistory:
    """Blocks in order of beginning, and how much was live of each device before the profile."""

    blocks: list[Block] = field(default_factory=list)
    before: dict[str, int] = field(default_factory=dict)
    # Bytes of a device that come and go at a time: (time, device, change, block).
    changes: list[tuple[float, str, int, Block]] = field(default_factory=list)

    def peak(self, device: str) -> tuple[float, int]:
        """When most memory of a device was live, and how much."""
        level = self.before.get(device, 0)
        best = (0.0, level)
        for time, where, change, _ in self.changes:
            if where == device:
                level += change
                if level > best[1]:
                    best = (time, level)
        return best

    def live_at(self, time: float, device: str) -> list[Block]:
        """The blocks that are there at a time, the largest first."""
        found = [
            b
            for b in self.blocks
            if b.device == device
            and (b.begin is None or b.begin <= time)
            and (b.end is None or b.end > time)
        ]
        return sorted(found, key=lambda b: -b.bytes)


def _tensors(value: Any, depth: int = 4) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif depth and isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item, depth - 1)
    elif depth and isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item, depth - 1)


class Marks:
    """While it is open, asks whoever holds tensors what they are, and tells the session."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._modules: dict[int, Any] = {}  # kept, so that no other object gets their identity
        self._outermost = 0  # the first one to be called: what it gets is input
        self._stack = contextlib.ExitStack()

    def open(self) -> None:
        """Begins to listen."""
        from rushlight.nn.modules.module import register_module_forward_pre_hook
        from rushlight.optim import optimizer
        from rushlight.profiler import _ranges

        hooks = (
            register_module_forward_pre_hook(self._before_module),
            optimizer.register_optimizer_step_pre_hook(self._before_step),
            optimizer.register_optimizer_step_post_hook(self._after_step),
        )
        for hook in hooks:
            self._stack.callback(hook.remove)
        _ranges.batch_watchers.append(self._mark_inputs)
        self._stack.callback(_ranges.batch_watchers.remove, self._mark_inputs)

    def close(self) -> None:
        """Marks what is held at the end, and stops listening."""
        self._stack.close()
        for module in self._modules.values():
            self._mark_module(module)
        self._modules.clear()

    def _mark(self, tensor: Tensor | None, kind: int) -> None:
        if tensor is not None:
            _C._profiler_mark(self._session, tensor, kind)

    def _mark_module(self, module: Any) -> None:
        from rushlight.nn.parameter import is_lazy

        for parameter in module._parameters.values():
            if parameter is not None and not is_lazy(parameter):
                self._mark(parameter, PARAMETER)
                self._mark(parameter.grad, GRADIENT)
        for buffer in module._buffers.values():
            if buffer is not None and not is_lazy(buffer):
                self._mark(buffer, PARAMETER)

    def _before_module(self, module: Any, args: Any) -> None:
        if not self._modules:
            self._outermost = id(module)
        if id(module) == self._outermost:
            self._mark_inputs(args)
        if id(module) not in self._modules:
            self._modules[id(module)] = module
            self._mark_module(module)

    def _mark_inputs(self, batch: Any) -> None:
        for tensor in _tensors(batch):
            self._mark(tensor, INPUT)

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self._mark(parameter, PARAMETER)
                self._mark(parameter.grad, GRADIENT)

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        for state in optimizer.state.values():
            for tensor in _tensors(state):
                self._mark(tensor, STATE)


class _Cursor:
    """The innermost event of a thread at times that only grow."""

    def __init__(self, events: list[Any]) -> None:
        self._events = events
        self._next = 0
        self._open: list[Any] = []

    def at(self, time: float) -> Any:
        events, open_ = self._events, self._open
        while self._next < len(events) and events[self._next].time_range.start <= time:
            open_.append(events[self._next])
            self._next += 1
        while open_ and open_[-1].time_range.end < time:
            open_.pop()
        return open_[-1] if open_ else None


def _add_usage(event: Any, device: str, change: int) -> None:
    while event is not None:
        if device == "cpu":
            event.cpu_memory_usage += change
        elif device.startswith("cuda"):
            event.device_memory_usage += change
        event = event.cpu_parent


def _outermost_op(event: Any) -> Any:
    """The op or node that an event is part of; None where only ranges are around it."""
    found = None
    while event is not None:
        if not (event.is_user_annotation or event.is_python_function):
            found = event
        event = event.cpu_parent
    return found


def _guess(block: Block) -> int:
    """What a block is that nobody marked, by who made it and who freed it."""
    event = block.event
    if event is None:
        return OTHER
    at = event
    while at is not None:
        if at.name.startswith(("autograd::engine", "Optimizer.")) or at.scope == 1:
            return TEMPORARY
        if at.name.startswith("enumerate(DataLoader)"):
            return INPUT
        at = at.cpu_parent
    op = _outermost_op(event)
    if op is None:
        return OTHER
    inside = block.end is not None and block.end <= op.time_range.end
    return TEMPORARY if inside else ACTIVATION


def _device_name(code: int) -> str:
    kind = _DEVICES[code >> 8]
    return f"cuda:{code & 255}" if kind == "cuda" else kind


def read_memory(session: Any, begin: int, events: list[Any], before: int) -> MemoryHistory:
    """The blocks of a session whose events are given, in order of beginning. Events get their
    cpu_memory_usage. `before` is how much CPU memory was live when it began."""
    found = _C._profiler_memory(session)
    history = MemoryHistory()
    if found is None:
        return history
    records, lines, threads = found
    by_thread: dict[int, list[Any]] = {}
    for event in events:
        by_thread.setdefault(event.thread, []).append(event)
    cursors = {thread: _Cursor(list_) for thread, list_ in by_thread.items()}
    live: dict[tuple[str, int], Block] = {}
    old: dict[str, int] = {}  # bytes of blocks known to have been there before
    for time_ns, address, change, thread, code, source in _RECORD.iter_unpack(records):
        time = (time_ns - begin) / 1000
        device = _device_name(code & 0xFFFF)
        key = (device, address)
        if code & _MARK:
            block = live.get(key)
            if block is None:
                block = live[key] = Block(address, thread, device)
                old[device] = old.get(device, 0) + thread
                history.blocks.append(block)
            # What was once a parameter, gradient or state stays it.
            if block.category < 0 or change < block.category:
                block.category = change
            continue
        cursor = cursors.get(threads.get(thread, -1))
        event = None if cursor is None else cursor.at(time)
        _add_usage(event, device, change)
        if change >= 0:
            block = live[key] = Block(
                address, change, device, begin=time, event=event, line=lines.get(source)
            )
            history.blocks.append(block)
        else:
            block = live.pop(key, None)
            if block is None:
                block = Block(address, -change, device)
                old[device] = old.get(device, 0) - change
                history.blocks.append(block)
            change = -block.bytes
            block.end, block.freed_in = time, event
        history.changes.append((time, device, change, block))
    for block in history.blocks:
        if block.category < 0:
            block.category = _guess(block)
    history.before = dict(old)
    history.before["cpu"] = max(before, old.get("cpu", 0))
    return history
