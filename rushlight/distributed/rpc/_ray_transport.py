"""Calls between processes, by Ray actors.

Ray calls methods of actors, which are processes that Ray starts; the functions that workers call
have to run in the workers' own processes. So each worker has an actor as its mailbox: `call` leaves
a message there and ends with the reply, the worker takes messages out, runs them and puts the
replies back. The actor belongs to the worker's process and ends with it, and then Ray ends the
calls that wait there. Large messages lie in Ray's object store, and the mailbox sees their numbers.

Ray may begin calls of such an actor in another order than they were made. That an RRef has a copy
must be known before a copy is dropped, so each sender counts its messages to a worker, and the
worker takes them in that order.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable
from typing import Any

from rushlight.distributed.rpc._messages import Message

_LARGE = 64 << 10  # bytes of tensors from which on a message goes through the object store
_NAMESPACE = "rushlight_rpc"


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ImportError(
            "rpc: calls between processes go through Ray, which is not installed: pip install ray "
            "(distributed.simulate runs workers as threads without it)"
        ) from error
    return ray


def _mailbox_class() -> Any:
    # A class of a function travels by value, so Ray's process need not import this package.
    class Mailbox:
        def __init__(self) -> None:
            import asyncio

            self.waiting: list[Any] = []
            self.replies: dict[int, Any] = {}
            self.count = 0
            self.came = asyncio.Event()
            self.is_closed = False

        async def call(self, sender: int, place: int, message: Any) -> Any:
            import asyncio

            if self.is_closed:
                raise RuntimeError("the worker has shut down")
            self.count += 1
            number = self.count
            reply = self.replies[number] = asyncio.get_running_loop().create_future()
            self.waiting.append((number, sender, place, message))
            self.came.set()
            return await reply

        async def take(self) -> list[Any] | None:
            await self.came.wait()
            if self.is_closed:
                return None
            self.came.clear()
            taken, self.waiting = self.waiting, []
            return taken

        async def reply(self, number: int, message: Any) -> None:
            self.replies.pop(number).set_result(message)

        async def close(self) -> None:
            self.is_closed = True
            self.came.set()

    return Mailbox


# Newer versions of Ray want a token, which they keep in the user's home; a process that joins looks
# for it if it is told so before.
_AUTHENTICATION = "RAY_AUTH_MODE"


def connect(store: Any, rank: int) -> tuple[Any, bool]:
    """Ray, connected to the cluster of worker 0; and whether this call connected it."""
    if rank != 0:
        address, mode = store.get("ray").decode().split("|")
        if mode:
            os.environ.setdefault(_AUTHENTICATION, mode)
    ray = _import_ray()
    started = not ray.is_initialized()
    quiet = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": False}
    if rank == 0:
        if started:
            there = os.environ.get("RAY_ADDRESS")
            if there:
                ray.init(address=there, **quiet)
            else:
                ray.init(address="local", include_dashboard=False, **quiet)
        address = ray.get_runtime_context().gcs_address
        store.set("ray", f"{address}|{os.environ.get(_AUTHENTICATION, '')}")
    elif started:
        ray.init(address=address, **quiet)
    elif ray.get_runtime_context().gcs_address != address:
        raise RuntimeError(
            "rpc.init_rpc: this process is connected to the Ray cluster at "
            f"{ray.get_runtime_context().gcs_address}, and worker 0 to the one at {address}"
        )
    return ray, started


class RayTransport:
    """Mailboxes that are Ray actors."""

    def __init__(self, worker: Any, store: Any) -> None:
        self._worker = worker
        me = worker.me.id
        self._ray, self._started = connect(store, me)
        if me == 0:
            store.set("job", uuid.uuid4().hex)
        self._job = store.get("job").decode()
        place = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            self._ray.get_runtime_context().get_node_id(), soft=False
        )
        actor = self._ray.remote(_mailbox_class()).options(
            name=f"{self._job}-{me}",
            namespace=_NAMESPACE,
            num_cpus=0,
            max_concurrency=10000,
            scheduling_strategy=place,
        )
        self._own = actor.remote()
        self._ray.wait([self._own.__ray_ready__.remote()])
        self._boxes: dict[int, Any] = {}
        self._is_closed = False
        self._sending = threading.Lock()
        self._sent: dict[int, int] = {}  # messages by receiver
        self._heard: dict[int, int] = {}  # messages by sender, in their order
        self._early: dict[int, dict[int, Any]] = {}  # by sender and place: others come before them
        self._thread = threading.Thread(target=self._serve, name="rpc messages", daemon=True)

    def start(self) -> None:
        """From now on, once all mailboxes are there."""
        for worker in self._worker.workers:
            box = f"{self._job}-{worker.id}"
            self._boxes[worker.id] = self._ray.get_actor(box, namespace=_NAMESPACE)
        self._thread.start()

    def _wrapped(self, message: Message) -> Any:
        if sum(len(buffer) for buffer in message[1]) < _LARGE:
            return message
        return [self._ray.put(message)]

    def _unwrapped(self, message: Any) -> Message:
        return self._ray.get(message[0]) if isinstance(message, list) else message

    def send(self, to: int, message: Message, came: Callable[[Any, Any], None]) -> None:
        """Calls ``came(reply, None)`` or ``came(None, error)``, once, from a thread of Ray's."""
        wrapped = self._wrapped(message)
        with self._sending:
            place = self._sent[to] = self._sent.get(to, 0) + 1
            reference = self._boxes[to].call.remote(self._worker.me.id, place, wrapped)

        def done(future: Any) -> None:
            try:
                reply = self._unwrapped(future.result())
            except BaseException as error:
                came(None, self._explained(to, error))
            else:
                came(reply, None)

        reference.future().add_done_callback(done)

    def _explained(self, to, error):
        name = self._worker.workers[to].name
        gone = isinstance(error, self._ray.exceptions.RayActorError)
        why = "its process has ended" if gone else f"{type(error).__name__}: {error}"
        return RuntimeError(f"rpc: {name} is gone: {why}")

    def _serve(self):
        taken: Any = []
        while taken is not None:
            try:
                taken = self._ray.get(self._own.take.remote())
            except BaseException:
                return  # Ray was shut down
            for number, sender, place, message in taken or ():
                self._early.setdefault(sender, {})[place] = number, message
                self._receive_in_order(sender)

    def _receive_in_order(self, sender):
        early = self._early[sender]
        while (place := self._heard.get(sender, 0) + 1) in early:
            self._heard[sender] = place
            number, message = early.pop(place)
            self._worker.receive(
                sender,
                self._unwrapped(message),
                lambda reply, number=number: self._reply(number, reply),
            )

    def _reply(self, number, reply):
        if not self._is_closed:
            self._own.reply.remote(number, self._wrapped(reply))

    def close(self) -> None:
        """Takes no more calls; leaves Ray if it was joined here. Worker 0 keeps the one that it
        started until its process ends, for the others that may still be leaving."""
        if self._is_closed:
            return
        try:
            self._ray.get(self._own.close.remote(), timeout=10)
            self._is_closed = True
            self._thread.join(10)
            self._ray.kill(self._own)
            if self._started and self._worker.me.id != 0:
                self._ray.shutdown()
        except Exception:
            pass  # Ray is gone already
        self._is_closed = True
