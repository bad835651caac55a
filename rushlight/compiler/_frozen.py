"""mode="frozen": a function's calls are recorded as a list of ops, and replayed without Python.

What is recorded, and what a replay depends on, is C++'s business (csrc/jit/recorder.h,
csrc/bindings/frozen); here are the calls that run Python, and what is told about them.
"""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable
from typing import Any

from rushlight import _C, config
from rushlight._C import Tensor
from rushlight.compiler._compile import log
from rushlight.utils._pytree import tree_flatten, tree_unflatten

# Calls in a row that led to no replay, after which a function is left to Python.
MOST_UNSTABLE = 8
MOST_NEW = 24

# What results may hold besides tensors: values that cannot change.
_PLAIN = (int, float, complex, str, bytes, bool, type(None), _C.dtype, _C.device)

COUNTERS = ("recorded", "replayed", "audited", "python")

_all: weakref.WeakSet[Frozen] = weakref.WeakSet()


class AuditError(RuntimeError):
    """A frozen function did something else than what was recorded of it."""


class _Watched(float):
    """A float that notices when Python decides by it; what is computed from it are plain floats.

    In recorded calls it stands for the floats among the arguments: one that only went into ops may
    become an input of the recording.
    """

    decided = False

    @staticmethod
    def all_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, _Watched]:
        """{place: watched float} for all floats, by the names that guards.cpp has for places."""
        places = {f"[{i}]": arg for i, arg in enumerate(args) if type(arg) is float}
        places |= {f"['{name}']": arg for name, arg in kwargs.items() if type(arg) is float}
        return {place: _Watched(number) for place, number in places.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return float, (float(self),)


def _decides(name):
    method = getattr(float, name)

    @functools.wraps(method)
    def run(self, *args):
        self.decided = True
        return method(self, *args)

    return run


for _name in """lt le gt ge eq ne bool int floor ceil trunc round hash str repr format floordiv
rfloordiv mod rmod divmod rdivmod""".split():
    if hasattr(float, f"__{_name}__"):
        setattr(_Watched, f"__{_name}__", _decides(f"__{_name}__"))
for _name in ("is_integer", "as_integer_ratio", "hex"):
    setattr(_Watched, _name, _decides(_name))


class Frozen:
    """The recordings of one compiled function. Copies and pickles of it begin without any."""

    def __init__(self, name: str = "", fullgraph: bool = False) -> None:
        self.name, self.fullgraph = name, fullgraph
        self.cache = _C._frozen_cache()
        self.counts = dict.fromkeys(COUNTERS, 0)
        self.reasons: list[str] = []  # why calls ran Python, the last ones
        self.clear()
        _all.add(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Frozen, (self.name, self.fullgraph)

    def clear(self) -> None:
        """Forgets all recordings."""
        _C._frozen_clear(self.cache)
        self.given_up: str | None = None
        self.unstable = self.new = 0

    def call(
        self, run: Callable[..., Any], function: Callable[..., Any], args: Any, kwargs: Any
    ) -> Any:
        """What function(*args, **kwargs) returns; run() calls it with its ops fused."""
        if self.given_up is None:
            found = _C._frozen_replay(self.cache, function, config._values, args, kwargs)
            if found is not self.cache:
                return found
            session = _C._frozen_begin(self.cache, function, config._values, args, kwargs)
            if isinstance(session, str):
                self._left_to_python(session)
            elif isinstance(session, tuple):
                self._give_up(session[0])
            else:
                return self._record(session, run, function, args, kwargs)
        self.counts["python"] += 1
        return run(function, args, kwargs)

    def _record(self, session, run, function, args, kwargs):
        """Runs Python, and keeps or compares what it did."""
        watched = _Watched.all_of(args, kwargs)
        if watched:
            args = tuple(watched.get(f"[{i}]", arg) for i, arg in enumerate(args))
            kwargs = {name: watched.get(f"['{name}']", arg) for name, arg in kwargs.items()}

        @functools.wraps(function, updated=())
        def call(*args, **kwargs):  # what runs around it is not the function's
            # Nor are the callbacks that others hang on collections of garbage.
            collects = gc.isenabled()
            gc.disable()
            _C._frozen_start(session)
            try:
                return function(*args, **kwargs)
            finally:
                _C._frozen_stop(session)
                if collects:
                    gc.enable()

        result = run(call, args, kwargs)
        tensors, leaves, rebuild = _taken_apart(result)
        decided = [place for place, number in watched.items() if number.decided]
        verdict, text = _C._frozen_end(self.cache, session, tensors, leaves, rebuild, decided)
        if verdict == "parted":
            self._raise(text)
        if verdict in ("recorded", "merged", "audited"):
            self._recorded(verdict, text)
        else:
            self.counts["python"] += 1
            self._left_to_python(text)
            self.unstable += verdict == "unstable"
            if self.unstable >= MOST_UNSTABLE:
                self._give_up(text)
        return result

    def _recorded(self, verdict, text):
        kind = "audited" if verdict == "audited" else "recorded"
        self.counts[kind] += 1
        self.unstable = 0
        if kind == "audited":
            self.new = 0
            log.debug("%s: audited, as recorded", self.name)
            return
        if verdict == "merged":
            log.info("%s: a number became an input (%s)", self.name, text)
            return
        log.info("%s: recorded%s", self.name, f", because of {text}" if text else "")
        self.new += 1
        if self.new >= MOST_NEW:
            self._give_up(f"{self.new} recordings in a row were never used; the last for {text}")

    def _give_up(self, text):
        self.given_up = f"given up: {text}"
        self._left_to_python(self.given_up)
        _C._frozen_clear(self.cache)

    def _left_to_python(self, why):
        """Tells why a call runs Python: each reason once."""
        if why in self.reasons:
            log.debug("%s: runs Python: %s", self.name, why)
        else:
            log.info("%s: runs Python: %s", self.name, why)
            self.reasons = [*self.reasons[-15:], why]
        if self.fullgraph:
            raise RuntimeError(
                f"compile(mode='frozen', fullgraph=True): {self.name} cannot be frozen: {why}"
            )

    def _raise(self, text):
        replayed = sum(row[3] for row in _C._frozen_about(self.cache))
        self.clear()
        log.info("%s: an audit failed: %s", self.name, text)
        wrong = f"{replayed} calls were replayed, and may have been wrong"
        raise AuditError(
            f"compile(mode='frozen'): {self.name} did something else than in the call that was "
            f"recorded: {text}. It depends on something that is not watched. "
            f"{wrong if replayed else 'Nothing was replayed yet'}. Make what it depends on an "
            "argument, or leave the mode out"
        )

    def programs(self) -> list[tuple[Any, ...]]:
        """(reason, ops, calls, replays, audits, numbers, values watched, text, graphs, replays by
        these) per recording."""
        return _C._frozen_about(self.cache)

    def lines(self) -> list[str]:
        """What is there, for people."""
        rows = [row for row in self.programs() if not row[0]]
        plural = "s" * (len(rows) != 1)
        lines = [f"frozen: {len(rows)} recording{plural}"]
        for _, ops, calls, replays, audits, numbers, watched, _, graphs, _ in rows:
            inputs = f", {numbers} numbers as inputs" if numbers else ""
            lines.append(
                f"  {ops} ops: {calls} calls, {replays} replayed, {audits} audited; "
                f"{watched} values of Python's watched{inputs}"
            )
            if graphs:
                lines.append(f"    on the GPU: {graphs}")
        lines += [f"  Python runs: {why}" for why in self.reasons]
        return lines


def _taken_apart(result):
    """The tensors of a result; its leaves, None for tensors and (value,) for others; how to put
    leaves together again (None: the one leaf is the result), or why that is not possible."""
    if type(result) is Tensor:
        return [result], (None,), None
    leaves, spec = tree_flatten(result)
    kinds: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, Tensor):
            kinds.append(None)
        elif isinstance(leaf, _PLAIN):
            kinds.append((leaf,))
        else:
            return [], (), f"a result is a {type(leaf).__name__}, which cannot be made anew"
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    if (
        type(result) in (tuple, list)
        and len(leaves) == len(result)
        and all(a is b for a, b in zip(leaves, result, strict=True))
    ):
        return tensors, tuple(kinds), type(result)
    return tensors, tuple(kinds), functools.partial(_put_together, spec)


def _put_together(spec, leaves):
    return tree_unflatten(leaves, spec)


def counts() -> dict[str, int]:
    """Calls of all frozen functions that are alive, by what became of them."""
    total = dict.fromkeys(COUNTERS, 0)
    for frozen in list(_all):
        for name, n in frozen.counts.items():
            total[name] += n
        total["replayed"] += sum(row[3] for row in frozen.programs())
    return total


def forget() -> None:
    """Drops the recordings of all frozen functions, and their counts."""
    for frozen in list(_all):
        frozen.clear()
        frozen.counts = dict.fromkeys(COUNTERS, 0)
        frozen.reasons = []
