"""A worker: sends calls, and answers those of others."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from rushlight.distributed import _world
from rushlight.distributed.autograd._context import Contexts, attached, prepare
from rushlight.distributed.rpc._deadlines import Housekeeper, Timer
from rushlight.distributed.rpc._messages import (
    Message,
    RemoteError,
    pack,
    tensor_bytes,
    tensor_from,
    unpack,
)
from rushlight.distributed.rpc._rref import OwnedValues, RRef
from rushlight.distributed.rpc.functions import answers_later
from rushlight.distributed.rpc.options import UNSET_RPC_TIMEOUT, TensorPipeRpcBackendOptions
from rushlight.futures import Future


@dataclass(frozen=True)
class WorkerInfo:
    """A worker's name and number."""

    name: str
    id: int


class Later:
    """An answer that is a future's value."""

    def __init__(self, future: Future) -> None:
        self.future = future


class Worker:
    """This process, or this simulated rank, among the workers."""

    def __init__(
        self,
        me: WorkerInfo,
        workers: list[WorkerInfo],
        options: TensorPipeRpcBackendOptions,
        store: Any,
    ) -> None:
        self.me, self.workers, self.options, self.store = me, workers, options, store
        self.by_name = {worker.name: worker for worker in workers}
        self.timeout = options.rpc_timeout
        self.contexts = Contexts(self)
        self.owned = OwnedValues(self)
        self.transport: Any = None
        self.counts = [0, 0]  # calls that were sent, calls that came back
        self.running = 0  # calls of others under way here
        self.pending: dict[int, Callable[[Any, Any], None]] = {}  # calls without an answer yet
        self.failure: str | None = None  # why waiting for others is in vain
        self._lock = threading.Lock()
        self.numbers = itertools.count(1)
        world = _world.own_world()
        self.pool = ThreadPoolExecutor(
            options.num_worker_threads,
            thread_name_prefix=f"rpc {me.name}",
            initializer=_world.become,
            initargs=(world,),
        )
        self.housekeeper = Housekeeper(f"rpc {me.name} housekeeper")

    def new_id(self) -> tuple[int, int]:
        """A number that no other worker makes."""
        return self.me.id, next(self.numbers)

    def find(self, to: Any) -> WorkerInfo:
        """The worker that a name, a number or a WorkerInfo means."""
        if isinstance(to, str) and to in self.by_name:
            return self.by_name[to]
        if isinstance(to, int) and 0 <= to < len(self.workers):
            return self.workers[to]
        if isinstance(to, WorkerInfo) and self.by_name.get(to.name) == to:
            return to
        known = ", ".join(self.by_name)
        raise RuntimeError(
            f"rpc: no worker {to!r}; there are {known} (0 to {len(self.workers) - 1})"
        )

    # Sending.

    def call(self, to: WorkerInfo, kind: str, payload: Any, timeout: float) -> Future:
        """Sends a request; the future gets the answer, or an error after ``timeout`` seconds."""
        answer = Future()
        context = self.contexts.current()
        message = self._encode((kind, payload), context, to.id)
        seconds = self.timeout if timeout == UNSET_RPC_TIMEOUT else timeout
        if seconds < 0:
            raise ValueError(f"rpc: timeout: expected seconds, or 0 for no limit, got {timeout}")
        with self._lock:
            self.counts[0] += 1
        once = threading.Lock()

        def came(reply: Message | None, error: Exception | None) -> None:
            if not once.acquire(blocking=False):
                return  # it was late
            late.cancel()
            self.pending.pop(id(once), None)
            with self._lock:
                self.counts[1] += 1
            try:
                if reply is not None:
                    value = self._decode(reply, context, to.id)[0]
                    error = value.to_raise() if isinstance(value, RemoteError) else None
            except Exception as unreadable:
                error = unreadable
            if error is not None:
                answer._finish(None, error)
            else:
                answer.set_result(value)

        def is_late() -> None:
            came(
                None,
                RuntimeError(
                    f"rpc: {to.name} has not answered within {seconds:g} s (timeout=, or "
                    "rpc_timeout of init_rpc's options); it may still be at it"
                ),
            )

        self.pending[id(once)] = came
        late = Timer(is_late)
        if seconds > 0:
            self.housekeeper.at(seconds, late)
        if to.id == self.me.id:
            self.receive(self.me.id, message, lambda reply: came(reply, None))
        else:
            self.transport.send(to.id, message, came)
        return answer

    def tell(self, to: int, kind: str, payload: Any) -> None:
        """Sends a request whose answer nobody waits for."""
        try:
            self.call(self.workers[to], kind, payload, 0)
        except Exception:
            pass  # the other one is gone, and so is what it was to be told about

    def _encode(self, obj, context, to):
        data, tensors = pack(obj, lambda rref: rref._share())
        facts, buffers = [], []
        for tensor in tensors:
            fact, buffer = tensor_bytes(tensor)
            facts.append(fact)
            buffers.append(buffer)
        header = prepare(context, tensors, to) if context is not None else None
        head, _ = pack((data, facts, header), None)
        return head, buffers

    def _decode(self, message, context, sender):
        """(the object, the context it belongs to)."""
        data, facts, header = unpack(bytes(message[0]), [], None)
        tensors = [tensor_from(*pair) for pair in zip(facts, message[1], strict=True)]
        if header is not None:
            context = self.contexts.get_or_make(header[0]) if context is None else context
            tensors = attached(context, tensors, header, sender)
        elif context is None:
            for tensor, fact in zip(tensors, facts, strict=True):
                tensor.requires_grad_(fact[2])
        return unpack(data, tensors, lambda *numbers: RRef._received(self, *numbers)), context

    # Answering.

    def receive(self, sender: int, message: Message, reply: Callable[[Message], None]) -> None:
        """A request came. What may take time goes to the pool."""
        with self._lock:
            self.running += 1

        def finish(value: Any, context: Any) -> None:
            try:
                encoded = self._encode(value, context, sender)
            except Exception as error:
                encoded = self._encode(RemoteError(error, self.me.name), None, sender)
            with self._lock:
                self.running -= 1
            reply(encoded)

        try:
            (kind, payload), context = self._decode(message, None, sender)
            handler, quick = _HANDLERS[kind]
        except Exception as error:
            return finish(RemoteError(error, self.me.name), None)
        if quick:
            return self._answer(handler, payload, context, sender, finish)
        self.pool.submit(self._answer, handler, payload, context, sender, finish)

    def _answer(self, handler, payload, context, sender, finish):
        with self.contexts.inside(context):
            try:
                value = handler(self, sender, payload)
            except BaseException as error:
                return finish(RemoteError(error, self.me.name), None)
        if not isinstance(value, Later):
            return finish(value, context)

        def done(future: Future) -> None:
            result, error = future._outcome()
            if error is not None:
                result = RemoteError(error, self.me.name)
            finish(result, context if error is None else None)

        value.future.add_done_callback(done)

    def idle(self) -> bool:
        """Whether nothing is under way here."""
        with self._lock:
            return self.running == 0 and self.counts[0] == self.counts[1]

    def fail(self, why: str) -> None:
        """Ends all waiting for others (a simulated rank raised)."""
        self.failure = why
        for came in list(self.pending.values()):
            came(None, RuntimeError(f"rpc: {why}"))

    def stop(self) -> None:
        """Ends the threads; calls raise afterwards."""
        self.housekeeper.do_what_was_left()
        self.transport.close()
        self.pool.shutdown(wait=False, cancel_futures=True)
        self.housekeeper.end()


def run_function(fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """What a call asks for."""
    value = fn(*args, **kwargs)
    if not answers_later(fn):
        return value
    if not isinstance(value, Future):
        raise RuntimeError(
            f"rpc: {getattr(fn, '__qualname__', fn)} is marked with async_execution, so it must "
            f"return a rushlight.futures.Future, got {type(value).__name__}"
        )
    return Later(value)


def _call(worker, sender, payload):
    return run_function(*payload)


def _remote(worker, sender, payload):
    """rpc.remote: the value stays here."""
    number, fn, args, kwargs = payload
    worker.owned.fill(number, lambda: run_function(fn, args, kwargs))


def _fetch(worker, sender, number):
    return Later(worker.owned.value_of(number))


def _add_copy(worker, sender, payload):
    worker.owned.add(*payload)


def _drop_copy(worker, sender, payload):
    worker.owned.drop(*payload)


def _of_contexts(name):
    return lambda worker, sender, payload: getattr(worker.contexts, name)(*payload)


# Kinds of requests: what answers them, and whether it is quick: then it runs where requests come
# in, in their order, and must wait for nothing.
_HANDLERS: dict[str, tuple[Callable[[Worker, int, Any], Any], bool]] = {
    "call": (_call, False),
    "remote": (_remote, False),
    "fetch": (_fetch, True),
    "add copy": (_add_copy, True),
    "drop copy": (_drop_copy, True),
    "release context": (_of_contexts("release"), True),
    "mark": (_of_contexts("mark"), False),
    "gradients": (_of_contexts("deliver"), False),
}
