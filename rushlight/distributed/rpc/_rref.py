"""RRef: a value that lives on one worker, and copies of its number on others.

The owner keeps a value as long as there are copies. Every copy has a number of its own. Whoever
sends an RRef tells the owner of the new copy first, and the receiver tells it when the copy dies;
the latter may come earlier, so a copy that was dropped before it was added is remembered.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rushlight.distributed._world import world
from rushlight.distributed.autograd._context import pass_on
from rushlight.distributed.rpc.options import UNSET_RPC_TIMEOUT
from rushlight.futures import Future

if TYPE_CHECKING:
    from rushlight.distributed.rpc._worker import Worker, WorkerInfo

__all__ = ["RRef"]

_T = TypeVar("_T")
Number = tuple[int, int]


def current_worker(what: str) -> Worker:
    """The worker that this process, or this simulated rank, is."""
    if world.rpc is None:
        raise RuntimeError(
            f"{what}: RPC has not been initialized; call distributed.rpc.init_rpc first"
        )
    return world.rpc


class _Owned:
    def __init__(self) -> None:
        self.value = Future()
        self.copies: set[Number] = set()
        self.dropped: set[Number] = set()


class OwnedValues:
    """The values that live on this worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._lock = threading.Lock()
        self._values: dict[Number, _Owned] = {}

    def _entry(self, number):
        return self._values.setdefault(number, _Owned())

    def fill(self, number: Number, make: Callable[[], Any]) -> None:
        """Makes the value."""
        from rushlight.distributed.rpc._worker import Later

        with self._lock:
            entry = self._entry(number)
        try:
            value = make()
        except Exception as error:
            entry.value.set_exception(error)
        else:
            if isinstance(value, Later):
                value.future.add_done_callback(lambda done: pass_on(done, entry.value))
            else:
                entry.value.set_result(value)
        with self._lock:  # all copies may have died meanwhile
            self._forget_if_unused(number, entry)

    def value_of(self, number: Number) -> Future:
        """The value, or the error that came instead."""
        with self._lock:
            return self._entry(number).value

    def add(self, number: Number, copy: Number) -> None:
        """There is one more copy."""
        with self._lock:
            entry = self._entry(number)
            self._move(number, entry, copy, entry.copies, entry.dropped)

    def drop(self, number: Number, copy: Number) -> None:
        """A copy died."""
        with self._lock:
            entry = self._entry(number)
            self._move(number, entry, copy, entry.dropped, entry.copies)

    def _move(self, number, entry, copy, into, met):
        if copy in met:
            met.remove(copy)
        else:
            into.add(copy)
        self._forget_if_unused(number, entry)

    def _forget_if_unused(self, number, entry):
        if not entry.copies and not entry.dropped:
            self._values.pop(number, None)

    def count(self) -> int:
        """How many values there are."""
        with self._lock:
            return len(self._values)


class RRef(Generic[_T]):
    """A value on some worker. ``RRef(value)`` shares a value of this one; ``rpc.remote`` makes one
    elsewhere."""

    def __init__(self, value: _T, type_hint: Any = None) -> None:
        worker = current_worker("RRef")
        number, copy = worker.new_id(), worker.new_id()
        worker.owned.add(number, copy)
        worker.owned.fill(number, lambda: value)
        self._set(worker, worker.me.id, number, copy, None)

    def _set(self, worker, owner, number, copy, creation):
        self._worker, self._owner, self._number, self._copy = worker, owner, number, copy
        self._creation = creation  # of a value made by rpc.remote: None, or a future

    @classmethod
    def _made(cls, *fields: Any) -> RRef:
        rref = cls.__new__(cls)
        rref._set(*fields)
        return rref

    @classmethod
    def _received(cls, worker: Worker, owner: int, number: Number, copy: Number) -> RRef:
        return cls._made(worker, owner, number, copy, None)

    def _share(self) -> tuple[int, Number, Number]:
        """What a message carries; the owner knows of the copy before the message goes."""
        worker, copy = self._worker, self._worker.new_id()
        if self.is_owner():
            worker.owned.add(self._number, copy)
        else:
            worker.tell(self._owner, "add copy", (self._number, copy))
        return self._owner, self._number, copy

    def __del__(self) -> None:
        worker = getattr(self, "_worker", None)
        if worker is None:
            return
        owner, what = self._owner, (self._number, self._copy)
        if owner == worker.me.id:
            worker.housekeeper.leave(lambda: worker.owned.drop(*what))
        else:
            worker.housekeeper.leave(lambda: worker.tell(owner, "drop copy", what))

    def __reduce__(self) -> Any:
        raise RuntimeError(
            "RRef: cannot be pickled, as its owner has to know of every copy; pass it as an "
            "argument of rpc_sync, rpc_async or remote"
        )

    def is_owner(self) -> bool:
        """Whether the value lives here."""
        return self._owner == self._worker.me.id

    def owner(self) -> WorkerInfo:
        """The worker on which the value lives."""
        return self._worker.workers[self._owner]

    def owner_name(self) -> str:
        """Its name."""
        return self.owner().name

    def confirmed_by_owner(self) -> bool:
        """Whether the owner has the value."""
        if self.is_owner():
            return self._worker.owned.value_of(self._number).done()
        return self._creation is None or self._creation.done()

    def local_value(self) -> _T:
        """The value itself, on its owner; waits until it has been made."""
        if not self.is_owner():
            raise RuntimeError(
                f"RRef.local_value: the value lives on {self.owner_name()}, and this is "
                f"{self._worker.me.name}; to_here() brings a copy"
            )
        return self._worker.owned.value_of(self._number).wait()

    def to_here(self, timeout: float = UNSET_RPC_TIMEOUT) -> _T:
        """A copy of the value; on its owner, the value itself."""
        if self.is_owner():
            return self.local_value()
        if self._creation is not None and self._creation.done():
            self._creation.wait()  # raises if the owner could not be reached
        return self._worker.call(self.owner(), "fetch", self._number, timeout).wait()

    def rpc_sync(self, timeout: float = UNSET_RPC_TIMEOUT) -> _Proxy:
        """Calls methods of the value on its owner: ``rref.rpc_sync().method(...)``."""
        return _Proxy(self, "rpc_sync", timeout)

    def rpc_async(self, timeout: float = UNSET_RPC_TIMEOUT) -> _Proxy:
        """The same, returning futures."""
        return _Proxy(self, "rpc_async", timeout)

    def remote(self, timeout: float = UNSET_RPC_TIMEOUT) -> _Proxy:
        """The same, returning RRefs."""
        return _Proxy(self, "remote", timeout)

    def backward(self, dist_autograd_ctx_id: int = -1, retain_graph: bool = False) -> None:
        """Backward from the value, a scalar, on its owner: into the gradients of a context, or
        into ``.grad`` where none is given and the value lives here."""
        from rushlight.distributed.autograd import backward

        if dist_autograd_ctx_id == -1:
            self.local_value().backward(retain_graph=retain_graph)  # type: ignore[attr-defined]
        elif self.is_owner():
            value: Any = self.local_value()
            backward(dist_autograd_ctx_id, [value], retain_graph)
        else:
            payload = (_backward_of, (self, dist_autograd_ctx_id, retain_graph), {})
            self._worker.call(self.owner(), "call", payload, 0).wait()

    def __repr__(self) -> str:
        kind = "OwnerRRef" if self.is_owner() else f"UserRRef of {self.owner_name()}'s"
        return f"{kind}(RRefId = {self._number[0]}, {self._number[1]})"


def _backward_of(rref, context_id, retain_graph):
    rref.backward(context_id, retain_graph)


class _Proxy:
    """Methods of an RRef's value, called on its owner."""

    def __init__(self, rref: RRef, how: str, timeout: float) -> None:
        self._rref, self._how, self._timeout = rref, how, timeout

    def __getattr__(self, name: str) -> Callable[..., Any]:
        from rushlight.distributed.rpc import api

        def call(*args: Any, **kwargs: Any) -> Any:
            send = getattr(api, self._how)
            payload = (self._rref, name, args, kwargs)
            return send(self._rref.owner(), _call_method, payload, timeout=self._timeout)

        return call


def _call_method(rref, name, args, kwargs):
    from rushlight.distributed.rpc._worker import run_function

    return run_function(getattr(rref.local_value(), name), args, kwargs)
