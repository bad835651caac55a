"""Batches in pinned memory, from which a GPU copies without waiting for the CPU."""

import collections.abc
import copy

from rushlight import Tensor

__all__ = ["pin_memory"]


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
