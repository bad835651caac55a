"""Lists and dicts whose values lie where reading them costs no memory.

Every Python object has a count of its users inside it. A worker that only reads a list of a million
strings writes a million counts, and so gets its own copy of every page they are on. There are two
ways around that:

- packed: the values lie in shared memory without objects, and are made when they are asked for;
- borrowed: in a process that was forked, the parent's list is read where it is, and what is handed
  out are copies (see csrc/bindings/data/borrowed_values.cpp).

A PackedList is still a list to isinstance, and to all that goes through its methods. When somebody
changes it, a packed one becomes an ordinary one; of a borrowed one the list behind it is changed.
"""

import collections.abc
import operator
import pathlib

import rushlight
from rushlight import _C

__all__ = ["LEAST", "PackedDict", "PackedList", "borrowed", "packed"]

# Smaller containers cost less than the attention they would get.
LEAST = 10_000


class _Numbers:
    """ints or floats, as an array."""

    def __init__(self, tensor, kind):
        self._tensor, self._kind = tensor, kind
        self._values = memoryview(tensor.detach())

    def __len__(self):
        return len(self._values)

    def __getitem__(self, i):
        return self._kind(self._values[i])

    def __iter__(self):
        return map(self._kind, self._values)

    def __reduce__(self):
        return _Numbers, (self._tensor, self._kind)


class _Values:
    """Strings, paths, or other plain values."""

    def __init__(self, storage, text, kind):
        self._storage, self._text, self._kind = storage, text, kind
        self._values = _C._PackedValues(storage, text)
        self.find = self._values.find

    def __len__(self):
        return len(self._values)

    def __getitem__(self, i):
        value = self._values[i]
        return value if self._kind is None else self._kind(value)

    def __iter__(self):
        values = iter(self._values)
        return values if self._kind is None else map(self._kind, values)

    def __reduce__(self):
        return _Values, (self._storage, self._text, self._kind)


class _Items:
    """The keys and values of a dict, packed."""

    def __init__(self, keys, values):
        self._keys, self._values = keys, values

    def __len__(self):
        return len(self._values)

    def lookup(self, key, default):
        if type(key) is not str:
            hash(key)  # a TypeError for what is no key
            if not isinstance(key, str):
                return default
            key = str(key)
        place = self._keys.find(key)
        return default if place < 0 else self._values[place]

    def __iter__(self):
        return zip(self._keys, self._values, strict=True)

    def keys(self):
        return iter(self._keys)

    def values(self):
        return iter(self._values)

    def __reduce__(self):
        return _Items, (self._keys, self._values)


class _BorrowedItems:
    """The items of another dict, as copies."""

    def __init__(self, owner):
        self.owner = owner
        items = _C._BorrowedItems(owner, pathlib.PurePath)
        self.lookup, self._step = items.lookup, items.step

    def __len__(self):
        return len(self.owner)

    def __iter__(self):
        place, size = 0, len(self.owner)
        while (step := self._step(place)) is not None:
            place, key, value = step
            yield key, value
            if len(self.owner) != size:
                raise RuntimeError("dictionary changed size during iteration")

    def keys(self):
        return (key for key, _ in self)

    def values(self):
        return (value for _, value in self)


def _owner(source):
    """The ordinary container behind a borrowed one; None for a packed one."""
    return getattr(source, "owner", None)


def _pack(values, first, with_index=False):
    """The packed values, or None where one of them is not plain."""
    kind = type(first)
    if kind in (int, float) and not with_index and all(type(v) is kind for v in values):
        try:
            dtype = rushlight.int64 if kind is int else rushlight.float64
            return _Numbers(rushlight.tensor(list(values), dtype=dtype).share_memory_(), kind)
        except (OverflowError, RuntimeError):
            pass  # ints of more than 64 bits
    if isinstance(first, pathlib.PurePath):
        if not all(type(v) is kind for v in values):
            return None
        return _Values(_C._pack_values(map(_text_of, values), True, with_index), True, kind)
    text = kind is str
    storage = _C._pack_values(values, text, with_index)
    if storage is None and text:
        text, storage = False, _C._pack_values(values, False, with_index)
    return None if storage is None else _Values(storage, text, None)


def _text_of(path):
    """str(path), without the copy that the path would keep in itself."""
    had_it = hasattr(path, "_str")
    text = str(path)
    if not had_it:
        try:
            del path._str
        except AttributeError:
            pass
    return text


def _read(name):
    """A method of list or dict that only reads, called on an ordinary copy."""

    def method(self, *args, **kwargs):
        return getattr(self._ordinary(), name)(*args, **kwargs)

    method.__name__ = name
    return method


def _write(base, name):
    """A method that changes: a packed container becomes an ordinary one first."""
    original = getattr(base, name)

    def method(self, *args, **kwargs):
        owner = _owner(self._packed)
        if owner is not None:
            result = original(owner, *args, **kwargs)
            return self if result is owner else result
        self._unpack()
        return original(self, *args, **kwargs)

    method.__name__ = name
    return method


_MISSING = object()


class PackedList(list):
    """A list whose values lie elsewhere until somebody changes it."""

    __slots__ = ("_packed",)

    def __init__(self, packed):
        super().__init__()
        self._packed = packed

    def _ordinary(self):
        """The values as an ordinary list."""
        return list.copy(self) if self._packed is None else list(self._packed)

    def _unpack(self):
        if self._packed is not None:
            values, self._packed = list(self._packed), None
            list.extend(self, values)

    def __len__(self):
        return list.__len__(self) if self._packed is None else len(self._packed)

    def __iter__(self):
        return list.__iter__(self) if self._packed is None else iter(self._packed)

    def __getitem__(self, index):
        packed = self._packed
        if packed is None:
            return list.__getitem__(self, index)
        if isinstance(index, slice):
            return [packed[i] for i in range(*index.indices(len(packed)))]
        try:
            index = operator.index(index)
        except TypeError:
            raise TypeError(
                f"list indices must be integers or slices, not {type(index).__name__}"
            ) from None
        size = len(packed)
        if index < 0:
            index += size
        if not 0 <= index < size:
            raise IndexError("list index out of range")
        return packed[index]

    def __reversed__(self):
        return (self[i] for i in range(len(self) - 1, -1, -1))

    def __contains__(self, value):
        return any(v is value or v == value for v in self)

    def __eq__(self, other):
        if not isinstance(other, list):
            return NotImplemented
        return len(self) == len(other) and all(map(operator.eq, self, other))

    def __ne__(self, other):
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __lt__(self, other):
        return self._ordinary() < list(other) if isinstance(other, list) else NotImplemented

    def __le__(self, other):
        return self._ordinary() <= list(other) if isinstance(other, list) else NotImplemented

    def __gt__(self, other):
        return self._ordinary() > list(other) if isinstance(other, list) else NotImplemented

    def __ge__(self, other):
        return self._ordinary() >= list(other) if isinstance(other, list) else NotImplemented

    def __add__(self, other):
        if not isinstance(other, list):
            return NotImplemented
        return [*self, *other]

    def __radd__(self, other):
        if not isinstance(other, list):
            return NotImplemented
        return [*other, *self]

    def copy(self):
        return self._ordinary()

    def __reduce_ex__(self, protocol):
        # To another process of ours the shared memory goes; to a file the values.
        if self._packed is not None and _owner(self._packed) is None and _shares():
            return PackedList, (self._packed,)
        return list, (), None, iter(self)

    __hash__ = None
    __mul__ = __rmul__ = _read("__mul__")
    __repr__, __str__ = _read("__repr__"), _read("__repr__")
    index, count = _read("index"), _read("count")


for _name in (
    "append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "__setitem__",
    "__delitem__", "__iadd__", "__imul__",
):  # fmt: skip
    setattr(PackedList, _name, _write(list, _name))


class PackedDict(dict):
    """A dict whose keys and values lie elsewhere until somebody changes it."""

    __slots__ = ("_packed",)

    def __init__(self, packed):
        super().__init__()
        self._hold(packed)

    def _hold(self, packed):
        self._packed = packed
        # C code that looks for an empty dict before it asks for the items must not find one.
        dict.__setitem__(self, PackedDict, None)

    def _ordinary(self):
        return dict.copy(self) if self._packed is None else dict(iter(self._packed))

    def _unpack(self):
        if self._packed is not None:
            values, self._packed = self._ordinary(), None
            dict.clear(self)
            dict.update(self, values)

    def __len__(self):
        return dict.__len__(self) if self._packed is None else len(self._packed)

    def __iter__(self):
        return dict.__iter__(self) if self._packed is None else self._packed.keys()

    def __reversed__(self):
        return reversed(self._ordinary())

    def __contains__(self, key):
        if self._packed is None:
            return dict.__contains__(self, key)
        return self._packed.lookup(key, _MISSING) is not _MISSING

    def __getitem__(self, key):
        if self._packed is None:
            return dict.__getitem__(self, key)
        value = self._packed.lookup(key, _MISSING)
        if value is _MISSING:
            raise KeyError(key)
        return value

    def get(self, key, default=None):
        if self._packed is None:
            return dict.get(self, key, default)
        return self._packed.lookup(key, default)

    def keys(self):
        return collections.abc.KeysView(self)

    def values(self):
        return _ValuesView(self)

    def items(self):
        return _ItemsView(self)

    def __eq__(self, other):
        if not isinstance(other, dict):
            return NotImplemented
        if len(self) != len(other):
            return False
        return all(other.get(key, _MISSING) == value for key, value in self.items())

    def __ne__(self, other):
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def copy(self):
        return self._ordinary()

    def __or__(self, other):
        return self._ordinary() | other

    def __ror__(self, other):
        return other | self._ordinary() if isinstance(other, dict) else NotImplemented

    def __reduce_ex__(self, protocol):
        if self._packed is not None and _owner(self._packed) is None and _shares():
            return PackedDict, (self._packed,)
        return dict, (), None, None, iter(self.items())

    __hash__ = None
    __repr__, __str__ = _read("__repr__"), _read("__repr__")


for _name in (
    "update", "pop", "popitem", "clear", "setdefault", "__setitem__", "__delitem__", "__ior__",
):  # fmt: skip
    setattr(PackedDict, _name, _write(dict, _name))


class _ValuesView(collections.abc.ValuesView):
    def __iter__(self):
        owner = self._mapping
        return iter(dict.values(owner)) if owner._packed is None else owner._packed.values()


class _ItemsView(collections.abc.ItemsView):
    def __iter__(self):
        owner = self._mapping
        return iter(dict.items(owner) if owner._packed is None else owner._packed)


def _shares():
    """Is this being pickled for another process?"""
    from rushlight.multiprocessing import reductions

    return reductions.is_sending()


def _packed_list(values):
    packed = _pack(values, values[0])
    return None if packed is None else PackedList(packed)


def _packed_dict(values):
    first = next(iter(values))
    if type(first) is not str or not all(type(key) is str for key in values):
        return None
    contents = _pack(values.values(), next(iter(values.values())))
    keys = None if contents is None else _pack(values.keys(), first, with_index=True)
    return None if keys is None else PackedDict(_Items(keys, contents))


def packed(value):
    """A packed container in place of a large ordinary one; otherwise the value itself."""
    kind = type(value)
    if kind is list and len(value) >= LEAST:
        found = _packed_list(value)
    elif kind is dict and len(value) >= LEAST:
        found = _packed_dict(value)
    elif kind in (PackedList, PackedDict) and value._packed is None and len(value) >= LEAST:
        # It was changed since: packed again where it is.
        found = (_packed_list if kind is PackedList else _packed_dict)(value._ordinary())
        if found is not None:
            kind.__base__.clear(value)
            if kind is PackedDict:
                value._hold(found._packed)
            else:
                value._packed = found._packed
        return value
    else:
        return value
    return value if found is None else found


def borrowed(value):
    """What reads a list or dict of the process that this one was forked from."""
    if type(value) is list:
        return PackedList(_C._BorrowedValues(value, pathlib.PurePath))
    return PackedDict(_BorrowedItems(value))
