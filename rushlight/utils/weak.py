"""Dictionaries whose keys are objects themselves, not what they are equal to, and are not kept
alive: tensors as keys."""

from __future__ import annotations

import builtins
import weakref
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, TypeVar

from rushlight import _C
from rushlight.types import Self

_K = TypeVar("_K")
_V = TypeVar("_V")

__all__ = [
    "TensorWeakRef",
    "WeakIdKeyDictionary",
    "WeakIdRef",
    "WeakTensorKeyDictionary",
    "WeakTensorRefKey",
]


class WeakIdRef(weakref.ref[_K]):
    """A weak reference that is equal to another one of the same object, and hashed by its identity:
    an object that has an `==` of its own, as tensors have, can be a key by it."""

    __slots__ = ("_id",)
    _id: int

    def __init__(self, key: _K, callback: Callable[[Any], Any] | None = None) -> None:
        self._id = id(key)
        super().__init__(key, callback)  # type: ignore[call-arg]

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine = self()
        theirs = other() if isinstance(other, weakref.ref) else None
        if mine is None or theirs is None:  # an identity may have been given to another one since
            return self is other
        return mine is theirs


WeakTensorRefKey = WeakIdRef


class WeakIdKeyDictionary(MutableMapping[_K, _V]):
    """A dict of objects by identity, which forgets those that nobody else holds.

    Example:
        >>> from rushlight.utils.weak import WeakIdKeyDictionary
        >>> x = rl.ones(2)
        >>> notes = WeakIdKeyDictionary({x: "inputs"})
        >>> notes[x], rl.ones(2) in notes
        ('inputs', False)
        >>> del x
        >>> len(notes)
        0
    """

    def __init__(self, dict: Any = None, ref_type: type[WeakIdRef[_K]] = WeakIdRef) -> None:
        self.data: builtins.dict[WeakIdRef[_K], _V] = {}
        self.ref_type = ref_type
        data = self.data

        def forget(reference: Any) -> None:
            data.pop(reference, None)

        self._forget = forget
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: _K) -> _V:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: _K, value: _V) -> None:
        self.data[self.ref_type(key, self._forget)] = value

    def __delitem__(self, key: _K) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: Any) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # of what there are no weak references
            return False

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[_K]:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def keyrefs(self) -> list[WeakIdRef[_K]]:
        """The weak references to the keys."""
        return list(self.data)

    def copy(self) -> Self:
        """Another dict with the same keys and values."""
        return type(self)(self)

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> Self:
        from copy import deepcopy

        new = type(self)()
        for key, value in self.items():
            new[key] = deepcopy(value, memo)
        return new

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        mine = {id(key): value for key, value in self.items()}
        return mine == {id(key): value for key, value in other.items()}

    __hash__ = None  # type: ignore[assignment]

    def __or__(self, other: Mapping[_K, _V]) -> Self:
        if not isinstance(other, Mapping):
            return NotImplemented
        new = self.copy()
        new.update(other)
        return new

    def __ior__(self, other: Mapping[_K, _V]) -> Self:
        self.update(other)
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with {len(self)} keys>"


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor: call it to get the tensor, or None when it is gone."""

    def __init__(self, tensor: _C.Tensor) -> None:
        if not isinstance(tensor, _C.Tensor):
            raise TypeError(f"TensorWeakRef: expected a tensor, got {type(tensor).__name__}")
        self.ref = weakref.ref(tensor)

    def __call__(self) -> _C.Tensor | None:
        """The tensor, or None."""
        return self.ref()
