"""Named ranges: record_function, and those that the package names while a profile records."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable
from typing import Any, Literal, cast

from rushlight import _C
from rushlight.types import _F, Self

__all__ = ["record_function"]

# What kind of range it is: the tag of its event.
USER, MODULE, STEP, WAIT = 0, 1, 2, 3  # STEP: shown as an op; WAIT: the host is about to wait

_begin: Callable[[str, int], int] = _C._profiler_begin_range
_end: Callable[[int, bool], None] = _C._profiler_end_range


class record_function:
    """Names a part of a program, as a with block or a decorator; running profilers time it.

    Arguments:
        name: the name.
        args: a text that is kept with it.

    Example:
        >>> with rl.profiler.profile() as prof, rl.profiler.record_function("forward", "batch 1"):
        ...     _ = rl.ones(2) + 1
        >>> any(event.key == "forward" for event in prof.key_averages())
        True
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self.run_callbacks_on_exit = True  # as PyTorch has it; the end is always told
        self._ranges: list[int] = []

    def __enter__(self) -> Self:
        self._ranges.append(_begin(self.name, USER))
        return self

    def __exit__(self, error: Any, *_: object) -> Literal[False]:
        _end(self._ranges.pop(), error is not None)
        return False

    def __call__(self, function: _F) -> _F:
        @functools.wraps(function)
        def timed(*args, **kwargs):
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return cast(_F, timed)


class _Shared:
    """Something that is put in place while at least one profile asks for it."""

    def __init__(self, install: Callable[[], Callable[[], None]]) -> None:
        self._install = install
        self._users = 0
        self._remove: Callable[[], None] | None = None

    def __enter__(self) -> None:
        with _lock:
            self._users += 1
            if self._users == 1:
                self._remove = self._install()

    def __exit__(self, *_: object) -> None:
        with _lock:
            self._users -= 1
            if self._users == 0 and self._remove is not None:
                self._remove()


_lock = threading.Lock()
# Called with each batch of a loader while a profile records.
batch_watchers: list[Callable[[Any], None]] = []


def _name_steps_and_batches():
    """Ranges around steps and zero_grad of optimisers and around the batches of loaders."""
    from rushlight.optim import optimizer
    from rushlight.utils.data import dataloader

    Optimizer, Loader = optimizer.Optimizer, dataloader._BaseDataLoaderIter
    zero_grad, next_batch = Optimizer.zero_grad, Loader.__next__

    @functools.wraps(zero_grad)
    def named_zero_grad(self, *args, **kwargs):
        with record_function(f"Optimizer.zero_grad#{type(self).__name__}.zero_grad"):
            return zero_grad(self, *args, **kwargs)

    @functools.wraps(next_batch)
    def named_next(self):
        with record_function(f"enumerate(DataLoader)#{type(self).__name__}.__next__"):
            batch = next_batch(self)
        for watch in batch_watchers:
            watch(batch)
        return batch

    Optimizer.zero_grad, Loader.__next__ = named_zero_grad, named_next
    optimizer._step_ranges.append(record_function)

    def remove():
        Optimizer.zero_grad, Loader.__next__ = zero_grad, next_batch
        optimizer._step_ranges.clear()

    return remove


def _watch_new_threads():
    """Threads that begin from now on are recorded.

    Python calls the function given to threading.setprofile once in a new thread before anything
    else; whoever else asked for it gets its turn after us.
    """
    before = threading.getprofile()

    def begin_thread(frame, event, arg):
        sys.setprofile(before)
        _C._profiler_watch_thread()
        if before is not None:
            before(frame, event, arg)

    threading.setprofile(begin_thread)

    def remove():
        if threading.getprofile() is begin_thread:
            threading.setprofile(before)

    return remove


def _name_modules():
    """Ranges around the calls of modules, named by their paths from the outermost module."""
    from rushlight.nn.modules._failure import path_between
    from rushlight.nn.modules.module import Module, use_slots

    call = Module.__call__
    local = threading.local()
    # By a module's identity: paths from it to the modules below, by theirs. The modules are kept
    # with them, so that no other object gets their identity meanwhile.
    known: dict[int, dict[int, tuple[str, Any]]] = {}

    def path_below(parent, module):
        paths = known.get(id(parent))
        if paths is None or id(module) not in paths:
            paths = {id(m): (path, m) for path, m in parent.named_modules()}
            known[id(parent)] = paths
            if id(module) not in paths:  # a program may call any module
                paths[id(module)] = path_between([parent, module]), module
        return paths[id(module)][0]

    def path_of(stack, module):
        if not stack:
            return ""
        parent, above = stack[-1]
        below = path_below(parent, module)
        return f"{above}.{below}" if above and below else above or below

    @functools.wraps(call)
    def named_call(self, *args, **kwargs):
        stack = local.__dict__.setdefault("stack", [])
        path = path_of(stack, self)
        stack.append((self, path))
        failed = True
        range_ = _begin(f"{path}\n{type(self).__name__}", MODULE)
        try:
            result = call(self, *args, **kwargs)
            failed = False
            return result
        finally:
            _end(range_, failed)
            stack.pop()

    Module.__call__ = named_call

    def remove():
        Module.__call__ = call
        use_slots()
        known.clear()

    return remove


_steps_and_batches = _Shared(_name_steps_and_batches)
_new_threads = _Shared(_watch_new_threads)
_modules = _Shared(_name_modules)


def installed(with_modules: bool) -> contextlib.ExitStack:
    """Puts the ranges in place until close() is called."""
    stack = contextlib.ExitStack()
    stack.enter_context(_steps_and_batches)
    stack.enter_context(_new_threads)
    if with_modules:
        stack.enter_context(_modules)
    return stack
