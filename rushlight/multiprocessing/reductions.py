"""How tensors are pickled for another process: their storage moves to shared memory, and the
message says where that is.

Note [How a descriptor travels]
A process that has not yet mapped an arena needs its file descriptor. Channels of this package are
sockets, and a message there carries the descriptors of its arenas (see Carrier): they arrive even
when the sender is gone. Other channels, such as a pipe of the standard module or the connection to
a Manager, carry bytes only. Messages there name the sender's process and descriptor, or the file of
the arena, and the sender keeps the arena until they were read.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from types import TracebackType
from typing import Any

from rushlight import _C, _utils
from rushlight._C import Tensor, UntypedStorage
from rushlight.types import Self

__all__ = ["Carrier", "Delivery", "init_reductions", "reduce_storage", "reduce_tensor"]

# More do not fit into one message; the kernel's limit is 253.
_MOST_DESCRIPTORS = 200


class _Thread(threading.local):
    carrier: Any = None
    delivery: Any = None


_this_thread = _Thread()


def is_sending() -> bool:
    """Is this thread pickling a message for a process that shares memory with this one?"""
    return _this_thread.carrier is not None


class Carrier:
    """While a message is pickled: collects the arenas whose descriptors go with it."""

    def __init__(self) -> None:
        self._slots = {}  # id of an arena -> which descriptor of the message
        self._storages = []  # keep the arenas until the message is sent
        self._cancels = []
        self._owned = []
        self.descriptors = []

    def __enter__(self) -> Self:
        self._outer, _this_thread.carrier = _this_thread.carrier, self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _this_thread.carrier = self._outer
        if kind is not None:
            self.cancel()

    def cancel(self) -> None:
        """The message is not sent."""
        for storage, by_name in self._storages:
            _C._shared_cancel(storage, by_name)
        self._storages.clear()
        for undo in self._cancels:
            undo()
        self._cancels.clear()

    def slot_for(self, arena: Any, descriptor: Any) -> int:
        if arena not in self._slots:
            if len(self.descriptors) == _MOST_DESCRIPTORS:
                return -1
            self._slots[arena] = len(self.descriptors)
            self.descriptors.append(descriptor)
        return self._slots[arena]

    def keep(self, storage: UntypedStorage, by_name: Any) -> None:
        self._storages.append((storage, by_name))

    def on_cancel(self, undo: Any) -> None:
        """Calls undo() if the message is not sent."""
        self._cancels.append(undo)

    def own(self, descriptor: Any) -> None:
        """Closes the descriptor with the message, sent or not."""
        self._owned.append(descriptor)

    def __del__(self) -> None:
        for descriptor in self._owned:
            os.close(descriptor)


class Delivery:
    """While a message is unpickled: the descriptors that came with it."""

    def __init__(self, descriptors: Any) -> None:
        self._descriptors = list(descriptors)

    def __enter__(self) -> Self:
        self._outer, _this_thread.delivery = _this_thread.delivery, self
        return self

    def __exit__(self, *_: object) -> None:
        _this_thread.delivery = self._outer
        for descriptor in self._descriptors:
            if descriptor >= 0:
                os.close(descriptor)

    def look(self, slot: Any) -> int:
        """The descriptor, which stays ours."""
        if slot >= len(self._descriptors):
            raise RuntimeError(
                "a tensor was sent from a process, but the file descriptor of its memory did not "
                "arrive: this process has too many open files (see ulimit -n)"
            )
        return self._descriptors[slot]

    def take(self, slot: Any) -> int:
        self.look(slot)
        descriptor, self._descriptors[slot] = self._descriptors[slot], -1
        return descriptor


def reduce_storage(storage: UntypedStorage) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """An UntypedStorage as a message: shared memory, and where it is."""
    if storage.device.type == "cuda":
        from rushlight.multiprocessing import _cuda_sharing

        return _cuda_sharing.reduce(storage, _this_thread.carrier)
    if storage.device.type != "cpu":
        raise RuntimeError(f"storages on {storage.device} cannot be sent to another process")
    _C._share_storage(storage)
    carrier = _this_thread.carrier
    if carrier is None:
        place, slot = _C._shared_send(storage, True), -1
    else:
        place = _C._shared_send(storage, False)
        slot = carrier.slot_for(place[0], place[3])
        carrier.keep(storage, slot < 0)
        if slot < 0:
            _C._shared_cancel(storage, False)
            place = _C._shared_send(storage, True)
    return rebuild_storage, (*place, slot, os.getpid())


def rebuild_storage(
    arena: Any, offset: int, nbytes: int, descriptor: Any, name: str, slot: Any, pid: int
) -> UntypedStorage:
    """The storage that another process sent."""
    if slot >= 0:
        delivery = _this_thread.delivery
        if delivery is None:
            raise RuntimeError(
                "a message with a tensor was read by other means than the channel it came through"
            )
        found = -1 if _C._has_arena(arena) else delivery.take(slot)
        return _C._shared_receive(arena, offset, nbytes, found, name, False)
    found = -1
    if not name and not _C._has_arena(arena):
        found = _descriptor_of(pid, descriptor)
    return _C._shared_receive(arena, offset, nbytes, found, name, True)


def taken_descriptor(slot: Any) -> int:
    """The descriptor in a slot of the message that is being unpickled; Delivery closes it."""
    delivery = _this_thread.delivery
    if delivery is None:
        raise RuntimeError(
            "a message with a tensor was read by other means than the channel it came through"
        )
    return delivery.look(slot)


def _descriptor_of(pid, descriptor):
    try:
        return os.open(f"/proc/{pid}/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise RuntimeError(
            f"the memory of a received tensor cannot be reached: process {pid}, which sent it, has "
            f"ended or is out of reach ({error.strerror}). Keep the sender alive until the tensor "
            "is received, or send it through a Queue or Pipe of rushlight.multiprocessing, which "
            "needs no living sender"
        ) from None


def _check_leaf(tensor):
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "a tensor that requires grad and is the result of an operation cannot be sent to "
            "another process, because its graph cannot go with it: send tensor.detach()"
        )


def reduce_tensor(tensor: Tensor) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A tensor as a message. A gradient goes along if it is in shared memory itself."""
    _check_leaf(tensor)
    plain: Any = _with_storage_on_gpu(tensor) if tensor.is_cuda else tensor.__reduce_ex__(2)
    grad = tensor.grad if tensor.is_leaf else None
    if grad is None or grad.is_cuda or not grad.is_shared():
        return plain
    return _with_grad, (*plain[:2], grad)


def _with_storage_on_gpu(tensor):
    before, _utils.sending.keeps_gpu = _utils.sending.keeps_gpu, True
    try:
        return tensor.__reduce_ex__(2)
    finally:
        _utils.sending.keeps_gpu = before


def _with_grad(rebuild, arguments, grad):
    tensor = rebuild(*arguments)
    tensor.grad = grad
    return tensor


def init_reductions() -> None:
    """Registers them for everything that pickles by multiprocessing's own pickler."""
    ForkingPickler.register(UntypedStorage, reduce_storage)
    ForkingPickler.register(Tensor, reduce_tensor)
    # Loaded when first used; if that comes later, nn.parameter registers its class itself.
    parameters = sys.modules.get("rushlight.nn.parameter")
    if parameters is not None:
        ForkingPickler.register(parameters.Parameter, reduce_tensor)
