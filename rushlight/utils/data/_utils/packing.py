"""Large lists and dicts of a dataset, packed into shared memory before workers start.

Every Python object has a count of its users inside it. A worker that only reads a list of a million
strings writes a million counts, and so gets its own copy of every page they are on. So such
containers are packed once into memory without objects, which all processes share, and values are
made when they are asked for. A packed list is still a list to isinstance, and to all that goes
through its methods; when somebody changes it, it becomes an ordinary one.
"""

import collections.abc
import operator
import pathlib
from itertools import islice

import rushlight
from rushlight import _C

__all__ = ["PackedDict", "PackedList", "pack_dataset"]

# Smaller containers cost less than the attention they would get.
LEAST = 10_000
_MOST_VISITED = 100_000


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
    """A method that changes: the container becomes an ordinary one first."""
    original = getattr(base, name)

    def method(self, *args, **kwargs):
        self._unpack()
        return original(self, *args, **kwargs)

    method.__name__ = name
    return method


class PackedList(list):
    """A list whose values lie in shared memory until somebody changes it."""

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
        if self._packed is not None and _shares():
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
    """A dict whose keys and values lie in shared memory until somebody changes it."""

    __slots__ = ("_keys", "_packed")

    def __init__(self, keys, values):
        super().__init__()
        self._hold(keys, values)

    def _hold(self, keys, values):
        self._keys, self._packed = keys, values
        # C code that looks for an empty dict before it asks for the items must not find one.
        dict.__setitem__(self, PackedDict, None)

    def _ordinary(self):
        if self._packed is None:
            return dict.copy(self)
        return dict(zip(self._keys, self._packed, strict=True))

    def _unpack(self):
        if self._packed is not None:
            values, self._packed, self._keys = self._ordinary(), None, None
            dict.clear(self)
            dict.update(self, values)

    def _place(self, key):
        if type(key) is not str:
            hash(key)  # a TypeError for what is no key
            if not isinstance(key, str):
                return -1
            key = str(key)
        return self._keys.find(key)

    def __len__(self):
        return dict.__len__(self) if self._packed is None else len(self._packed)

    def __iter__(self):
        return dict.__iter__(self) if self._packed is None else iter(self._keys)

    def __reversed__(self):
        return reversed(self._ordinary())

    def __contains__(self, key):
        return dict.__contains__(self, key) if self._packed is None else self._place(key) >= 0

    def __getitem__(self, key):
        if self._packed is None:
            return dict.__getitem__(self, key)
        place = self._place(key)
        if place < 0:
            raise KeyError(key)
        return self._packed[place]

    def get(self, key, default=None):
        if self._packed is None:
            return dict.get(self, key, default)
        place = self._place(key)
        return default if place < 0 else self._packed[place]

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
        missing = object()
        return all(other.get(key, missing) == value for key, value in self.items())

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
        if self._packed is not None and _shares():
            return PackedDict, (self._keys, self._packed)
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
        return iter(dict.values(owner)) if owner._packed is None else iter(owner._packed)


class _ItemsView(collections.abc.ItemsView):
    def __iter__(self):
        owner = self._mapping
        if owner._packed is None:
            return iter(dict.items(owner))
        return zip(owner._keys, owner._packed, strict=True)


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
    return None if keys is None else PackedDict(keys, contents)


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
            value._packed = found._packed
            if kind is PackedDict:
                value._hold(found._keys, found._packed)
        return value
    else:
        return value
    return value if found is None else found


def pack_dataset(dataset):
    """Replaces large containers of plain values by packed ones: attributes of the dataset, of
    datasets inside it, and of other objects that it holds."""
    seen, waiting = {id(dataset)}, [dataset]
    replaced = {}  # id of an ordinary container -> it and the packed one
    while waiting and len(seen) < _MOST_VISITED:
        owner = waiting.pop()
        for place, value in list(_parts(owner)):
            if id(value) in replaced:
                _put(owner, place, replaced[id(value)][1])
                continue
            instead = packed(value)
            if instead is not value:
                replaced[id(value)] = value, instead
                _put(owner, place, instead)
            elif id(value) not in seen and _may_hold(value):
                seen.add(id(value))
                waiting.append(value)


def _may_hold(value):
    kind = type(value)
    if kind in (list, tuple, dict):
        return len(value) < LEAST
    if isinstance(value, type) or callable(getattr(value, "__code__", None)):
        return False
    if kind.__module__ in ("builtins", "numpy") or isinstance(value, rushlight.Tensor):
        return False
    return hasattr(value, "__dict__") and not isinstance(value, type(collections))


def _parts(owner):
    """(place, value) of what an object holds."""
    if isinstance(owner, list | tuple):
        return enumerate(owner)
    if isinstance(owner, dict):
        return owner.items()
    return islice(getattr(owner, "__dict__", {}).items(), LEAST)


def _put(owner, place, value):
    if isinstance(owner, list | dict):
        owner[place] = value
    elif not isinstance(owner, tuple):
        owner.__dict__[place] = value
