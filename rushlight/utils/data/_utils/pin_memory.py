"""Batches in pinned memory, from which a GPU copies without waiting for the CPU."""

import collections.abc
import copy
import queue
import threading

from rushlight import Tensor

__all__ = ["PinningThread", "pin_memory"]


def pin_memory(data, device=None):
    """The same nest of containers with pinned tensors; whatever else is in it stays as it is."""
    if isinstance(data, Tensor):
        return data.pin_memory()
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, str | bytes):
        return data
    if isinstance(data, collections.abc.Mapping):
        return _rebuilt(data, {key: pin_memory(value, device) for key, value in data.items()})
    if isinstance(data, tuple):
        values = [pin_memory(value, device) for value in data]
        return type(data)(*values) if hasattr(data, "_fields") else tuple(values)
    if isinstance(data, collections.abc.Sequence):
        return _rebuilt(data, [pin_memory(value, device) for value in data])
    return data


def _rebuilt(container, values):
    """A container of the same class where that is possible."""
    try:
        if isinstance(container, collections.abc.MutableMapping):
            out = copy.copy(container)
            out.update(values)
            return out
        if isinstance(container, collections.abc.MutableSequence):
            out = copy.copy(container)
            for i, value in enumerate(values):
                out[i] = value
            return out
        return type(container)(values)
    except TypeError:
        return values


class PinningThread:
    """Fetches pinned batches, a few ahead of the one that is used."""

    def __init__(self, fetch, ahead=2):
        self._fetch = fetch
        self._batches = queue.Queue(ahead)
        self._stopped = False
        self._thread = threading.Thread(target=self._run, daemon=True, name="rushlight-pinning")
        self._thread.start()

    def _run(self):
        while not self._stopped:
            try:
                batch, error = self._fetch(), None
            except BaseException as raised:
                batch, error = None, raised
            while not self._stopped:
                try:
                    self._batches.put((batch, error), timeout=0.1)
                    break
                except queue.Full:
                    continue
            del batch
            if isinstance(error, StopIteration):
                return

    def next(self):
        batch, error = self._batches.get()
        if isinstance(error, StopIteration):
            raise StopIteration
        if error is not None:
            raise error
        return batch

    def stop(self):
        self._stopped = True

    def join(self):
        if self._thread is not threading.current_thread():
            self._thread.join()
