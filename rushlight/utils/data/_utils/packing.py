"""What is done about large lists and dicts of a dataset before workers start; packed.py says why.

- A container that only the dataset holds is packed, once, and replaced where the dataset has it.
- One that the program holds as well stays as it is: a packed one would be a second copy, and would
  not hear of changes to the first. A worker that is forked borrows it. To a process that is started
  afresh a packed copy goes.

Note [Who holds a container]
The search below finds every place in the dataset where a container is. If its reference count says
that there are no others, nobody will miss it. Packing frees nothing, either, when the values are
in use elsewhere, so that counts as being held.
"""

import contextlib
import copyreg
import itertools
import pathlib
import sys
import types

import rushlight
from rushlight.utils.data._utils.packed import LEAST, PackedDict, PackedList, borrowed, packed

__all__ = ["Containers"]

_MOST_VISITED = 100_000
_SAMPLED = 64
_PLAIN = (str, bytes, int, float, complex, bool, type(None), tuple, pathlib.PurePath)


class _Found:
    """A large container, and where it is."""

    def __init__(self, value):
        self.value = value
        self.places = []
        self.outside = False  # it is (also) where the dataset's code finds it, not the dataset

    def is_held(self):
        """See Note [Who holds a container]."""
        if not _is_large(self.value):
            return False
        return self.outside or _holders(self) > len(self.places) or _is_in_use(self.value)

    def put(self, instead):
        for owner, place in self.places:
            _put(owner, place, instead)


class Containers:
    """The large containers of a worker's Setup."""

    def __init__(self, setup, forks):
        self._found = {}  # id -> _Found
        self._search(setup, forks)
        self._held = []
        self._packed = None  # what goes to fresh processes instead
        while self._found:  # what is packed goes at once
            _, found = self._found.popitem()
            instead = found.value if found.is_held() else packed(found.value)
            if instead is not found.value:
                found.put(instead)
            elif _is_large(instead) and (not forks or _is_worth_borrowing(instead)):
                self._held.append(found)
            del found, instead

    def borrow(self):
        """In a worker that was forked: reads what the main process holds."""
        for found in self._held:
            # A class may refuse: then its list stays an ordinary one.
            with contextlib.suppress(Exception):
                found.put(borrowed(found.value))

    def __enter__(self):
        """While a Setup is pickled: puts packed copies of what the program holds in its place."""
        if self._packed is None:
            self._packed = [packed(found.value) for found in self._held]
        for found, instead in zip(self._held, self._packed, strict=True):
            found.put(instead)
        return self

    def __exit__(self, *_):
        for found in self._held:
            found.put(found.value)

    def _search(self, setup, forks):
        seen, waiting = {id(setup)}, [setup]
        while waiting and len(seen) < _MOST_VISITED:
            owner = waiting.pop()
            for place, value in _parts(owner):
                if _is_large(value) or type(value) in (PackedList, PackedDict):
                    self._note(owner, place, value)
                elif id(value) in seen:
                    continue
                elif _may_hold(value):
                    seen.add(id(value))
                    waiting.append(value)
                elif forks and type(value) is types.FunctionType:
                    seen.add(id(value))
                    self._search_code(value)
            # Where code finds things is a process's own: only a forked one has the same.
            for kind in type(owner).__mro__ if forks else ():
                if id(kind) not in seen:
                    seen.add(id(kind))
                    self._search_class(kind)

    def _note(self, owner, place, value, outside=False):
        found = self._found.setdefault(id(value), _Found(value))
        found.places.append((owner, place))
        found.outside |= outside

    def _search_class(self, kind):
        """Containers that methods of a class find as globals, or in the class."""
        if str(kind.__module__).partition(".")[0] in ("builtins", "rushlight", "typing"):
            return
        for name, value in vars(kind).items():
            if type(value) in (staticmethod, classmethod):
                value = value.__func__
            if type(value) is types.FunctionType:
                self._search_code(value)
            elif _is_large(value):
                self._note(kind, name, value, outside=True)

    def _search_code(self, function):
        known = function.__globals__
        for name in _names_in(function.__code__) & known.keys():
            if _is_large(known[name]):
                self._note(known, name, known[name], outside=True)
        for cell in function.__closure__ or ():
            try:
                value = cell.cell_contents
            except ValueError:
                continue  # it has no value yet
            if _is_large(value):
                self._note(cell, "cell_contents", value, outside=True)


def _names_in(code):
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_in(constant)
    return names


def _is_large(value):
    return type(value) in (list, dict) and len(value) >= LEAST


def _holders(found):
    """How many references there are to a container besides our own."""
    return sys.getrefcount(found.value) - _OWN_REFERENCES


def _own_references():
    return _holders(_Found([]))


_OWN_REFERENCES = 0
_OWN_REFERENCES = _own_references()


def _some(values):
    """Some of the values of a list, from all over it, or of the keys of a dict. Only those are
    touched: other workers may share the pages of the rest."""
    if type(values) is not list:
        return list(itertools.islice(values, _SAMPLED))
    return [values[i] for i in range(0, len(values), max(1, len(values) // _SAMPLED))]


def _in_use(sample):
    """How many of the values, or keys, others hold as well. Numbers are made when asked for, and
    what is never freed has a count beyond all others."""
    count = 0
    for i in range(len(sample)):
        if type(sample[i]) not in (int, float, bool, type(None)):
            count += _IN_SAMPLE < sys.getrefcount(sample[i]) < 1 << 29
    return count


def _references_in_sample():
    values = [object()]
    sample = _some(values)
    return sys.getrefcount(sample[0])


_IN_SAMPLE = _references_in_sample()


def _is_in_use(values):
    """Do others hold most of the values? Then packing the container frees little."""
    sample = _some(values)
    return 2 * _in_use(sample) > len(sample)


def _is_worth_borrowing(values):
    sample = _some(values.values() if type(values) is dict else values)
    return 2 * sum(isinstance(value, _PLAIN) for value in sample) > len(sample)


def _may_hold(value):
    kind = type(value)
    if kind in (list, tuple, dict):
        return len(value) < LEAST
    if isinstance(value, type | types.ModuleType | types.FunctionType | rushlight.Tensor):
        return False
    if kind.__module__ in ("builtins", "numpy"):
        return False
    return hasattr(value, "__dict__") or bool(_slots(kind))


def _slots(kind):
    return copyreg._slotnames(kind) if hasattr(kind, "__slots__") else ()


def _parts(owner):
    """(place, value) of what an object holds."""
    if isinstance(owner, list | tuple):
        return enumerate(owner)
    if isinstance(owner, dict):
        return list(owner.items())
    parts = list(itertools.islice(getattr(owner, "__dict__", {}).items(), LEAST))
    for name in _slots(type(owner)):
        try:
            parts.append((name, getattr(owner, name)))
        except AttributeError:
            pass  # nothing was put there
    return parts


def _put(owner, place, value):
    if isinstance(owner, list | dict):
        owner[place] = value
    elif isinstance(owner, tuple):
        rushlight._C._replace_in_tuple(owner, place, value)
    elif isinstance(owner, type):
        setattr(owner, place, value)
    elif place in getattr(owner, "__dict__", ()):
        owner.__dict__[place] = value
    else:
        object.__setattr__(owner, place, value)
