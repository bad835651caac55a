"""Who keeps tensors alive: the variable or attribute that holds them, found through Python's
garbage collector while the program still runs. Objects of all sorts go by here: they are asked for
their type alone, as isinstance() runs code of theirs, which dead weak references raise in."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from types import FrameType, ModuleType
from typing import Any

from rushlight._C import Tensor
from rushlight.profiler._lines import is_users
from rushlight.profiler._memory import Block

__all__ = ["keepers_of"]


def _frames(frame: FrameType | None) -> list[FrameType]:
    found = []
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            found.append(frame)
        frame = frame.f_back
    return found


def _named_values(frames: list[FrameType]) -> dict[int, str]:
    """What the program's variables are called, by the identity of what they hold."""
    found: dict[int, str] = {}
    for frame in frames:
        spaces = [(frame.f_locals, f" of {frame.f_code.co_name}()"), (frame.f_globals, "")]
        for space, where in spaces:
            of = "" if frame.f_locals is frame.f_globals else where
            for name, value in list(space.items()):
                if not name.startswith("__") and type(value) is not ModuleType:
                    found.setdefault(id(value), f"{name}{of}")
    return found


def _attribute_of(container: Any, names: dict[int, str]) -> str | None:
    """`model.history`: an object with a name that has the container as an attribute."""
    for holder in gc.get_referrers(container):
        # The dict of an instance, or, where Python has not made one, the instance itself.
        owners = gc.get_referrers(holder) if type(holder) is dict else [holder]
        for owner in owners:
            space = getattr(owner, "__dict__", None)
            if not isinstance(space, dict) or isinstance(owner, ModuleType | type):
                continue
            for key, value in space.items():
                if value is container and isinstance(key, str):
                    return f"{names.get(id(owner), type(owner).__name__)}.{key}"
    return None


def _is_tensor(value: Any) -> bool:
    return issubclass(type(value), Tensor)


def _address(value: Any) -> int | None:
    """Where a tensor's memory begins, if it has any."""
    if not _is_tensor(value) or value.device.type not in _DEVICES:
        return None
    try:
        return value.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):  # of a subclass, or not dense
        return None


def keepers_of(blocks: Iterable[Block]) -> str | None:
    """What holds most of the tensors of these blocks, in words."""
    addresses = {b.address + (_HEADER if b.device == "cpu" else 0) for b in blocks}
    frames = _frames(sys._getframe(1))
    names = _named_values(frames)
    found: list[tuple[int, Any]] = []
    for holder in gc.get_objects():  # tensors are not among them, what holds them is
        if type(holder) in (FrameType, ModuleType) or holder is names:
            continue
        count = sum(_address(value) in addresses for value in gc.get_referents(holder))
        if count >= 2:
            found.append((count, holder))
    for count, holder in sorted(found, key=lambda item: -item[0])[:5]:
        name = names.get(id(holder)) or _attribute_of(holder, names)
        if name is not None:
            return f"the {type(holder).__name__} {name} holds {count} of them"
    graphs = {
        name: _nodes(value.grad_fn)
        for frame in frames
        for name, value in {**frame.f_globals, **frame.f_locals}.items()
        if _is_tensor(value) and value.grad_fn is not None
    }
    if graphs:  # one that grows is longer than that of a single step
        return f"the graph of {max(graphs, key=lambda name: graphs[name])} may hold them"
    return None


def _nodes(root: Any) -> int:
    """How many nodes a graph has, of the first hundred thousand."""
    seen, waiting = {root}, [root]
    while waiting and len(seen) < 100_000:
        for node, _ in waiting.pop().next_functions:
            if node is not None and node not in seen:
                seen.add(node)
                waiting.append(node)
    return len(seen)


_DEVICES = ("cpu", "cuda")
_HEADER = 64  # of blocks on the host, before the elements
