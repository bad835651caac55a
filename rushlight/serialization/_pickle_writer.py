"""Objects as pickle opcodes, protocol 2: what Python's pickler does, with our names for modules.

The bytes are gathered in pieces. A piece may be a `Later`, a number that is known only when the
whole object was seen (which part of a storage is in use); it is written when the pieces are joined.
"""

import _compat_pickle
import copyreg
import pickle
import struct
import sys
from types import BuiltinFunctionType, FunctionType

from rushlight.serialization._names import module_in_file

_BATCH = 1000  # items between a MARK and its APPENDS or SETITEMS


class Later:
    """An int that is asked for at the end."""

    def __init__(self, value):
        self.value = value


def encode_int(value):
    if 0 <= value < 1 << 8:
        return struct.pack("<cB", pickle.BININT1, value)
    if 0 <= value < 1 << 16:
        return struct.pack("<cH", pickle.BININT2, value)
    if -1 << 31 <= value < 1 << 31:
        return struct.pack("<ci", pickle.BININT, value)
    data = pickle.encode_long(value)
    if len(data) < 256:
        return struct.pack("<cB", pickle.LONG1, len(data)) + data
    return struct.pack("<ci", pickle.LONG4, len(data)) + data


class PickleWriter:
    """Writes one object. Subclasses say in `write_special` how they write objects of their own."""

    def __init__(self):
        self.pieces = [pickle.PROTO + b"\x02"]
        self.put = self.pieces.append
        self._memo = {}  # id -> (number, object); the object is kept so that its id stays its own
        self._global_memo = {}  # (module, name) -> number
        self._memo_length = 0

    def dump(self, obj):
        self.write(obj)
        self.put(pickle.STOP)

    def getvalue(self):
        return b"".join(
            encode_int(piece.value()) if type(piece) is Later else piece for piece in self.pieces
        )

    # The memo.

    def _next_number(self):
        number = self._memo_length
        self._memo_length += 1
        if number < 256:
            self.put(struct.pack("<cB", pickle.BINPUT, number))
        else:
            self.put(struct.pack("<cI", pickle.LONG_BINPUT, number))
        return number

    def memoize(self, obj):
        self._memo[id(obj)] = self._next_number(), obj

    def is_written(self, obj):
        """Whether what comes may refer to it."""
        return id(obj) in self._memo

    def _get(self, number):
        if number < 256:
            self.put(struct.pack("<cB", pickle.BINGET, number))
        else:
            self.put(struct.pack("<cI", pickle.LONG_BINGET, number))

    # Objects.

    def write_special(self, obj):
        """Writes an object and returns True, or returns False."""
        return False

    def write(self, obj):
        plain = _PLAIN.get(type(obj))
        if plain is not None:
            return plain(self, obj)
        known = self._memo.get(id(obj))
        if known is not None:
            return self._get(known[0])
        if self.write_special(obj):
            return None
        container = _CONTAINERS.get(type(obj))
        if container is not None:
            return container(self, obj)
        reduce = copyreg.dispatch_table.get(type(obj))
        if reduce is not None:
            reduced = reduce(obj)
        elif isinstance(obj, type):
            return self._write_class(obj)
        elif isinstance(obj, FunctionType | BuiltinFunctionType) and not _is_bound(obj):
            return self.write_global(obj)
        else:
            reduced = obj.__reduce_ex__(2)
        if isinstance(reduced, str):
            return self.write_global(obj, reduced)
        if type(reduced) is not tuple or not 2 <= len(reduced) <= 6:
            raise pickle.PicklingError(
                f"save: {type(obj).__name__}.__reduce_ex__ must return a str or a tuple of two to "
                f"six items, got {type(reduced).__name__}"
            )
        return self.write_reduced(obj, *reduced)

    def _write_none(self, obj):
        self.put(pickle.NONE)

    def _write_bool(self, obj):
        self.put(pickle.NEWTRUE if obj else pickle.NEWFALSE)

    def _write_int(self, obj):
        self.put(encode_int(obj))

    def _write_later(self, obj):
        self.put(obj)

    def _write_float(self, obj):
        self.put(struct.pack(">cd", pickle.BINFLOAT, obj))

    def _write_str(self, obj):
        data = obj.encode("utf-8", "surrogatepass")
        if len(data) >= 1 << 32:
            raise pickle.PicklingError("save: a str of 4 GiB or more cannot be written")
        self.put(struct.pack("<cI", pickle.BINUNICODE, len(data)) + data)
        self.memoize(obj)

    def _write_bytes(self, obj):
        # Protocol 2 has no bytes; they travel as text. PyTorch's reader knows this call.
        self.put_global("_codecs", "encode")
        self.write(obj.decode("latin1"))
        self.write("latin1")
        self.put(pickle.TUPLE2 + pickle.REDUCE)
        self.memoize(obj)

    def _write_tuple(self, obj):
        if not obj:
            self.put(pickle.EMPTY_TUPLE)
            return
        small = len(obj) <= 3
        if not small:
            self.put(pickle.MARK)
        for item in obj:
            self.write(item)
        known = self._memo.get(id(obj))
        if known is not None:
            # The tuple holds itself, and was written while its items were.
            self.put(pickle.POP * len(obj) if small else pickle.POP_MARK)
            self._get(known[0])
            return
        self.put(_TUPLES[len(obj)] if small else pickle.TUPLE)
        self.memoize(obj)

    def _write_list(self, obj):
        self.put(pickle.EMPTY_LIST)
        self.memoize(obj)
        self._append(iter(obj))

    def _write_dict(self, obj):
        self.put(pickle.EMPTY_DICT)
        self.memoize(obj)
        self._set_items(iter(obj.items()))

    def _append(self, items):
        for batch in _batches(items):
            if len(batch) == 1:
                self.write(batch[0])
                self.put(pickle.APPEND)
                continue
            self.put(pickle.MARK)
            for item in batch:
                self.write(item)
            self.put(pickle.APPENDS)

    def _set_items(self, items):
        for batch in _batches(items):
            self.put(pickle.MARK if len(batch) > 1 else b"")
            for key, value in batch:
                self.write(key)
                self.write(value)
            self.put(pickle.SETITEMS if len(batch) > 1 else pickle.SETITEM)

    # Names.

    def put_global(self, module, name):
        """A class or function by the name that it has in the file."""
        number = self._global_memo.get((module, name))
        if number is not None:
            return self._get(number)
        self.put(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        self._global_memo[module, name] = self._next_number()
        return None

    def _write_class(self, obj):
        if obj in _TYPES_OF_CONSTANTS:
            return self.write_reduced(obj, type, (_TYPES_OF_CONSTANTS[obj],))
        return self.write_global(obj)

    def write_global(self, obj, name=None):
        name = name or getattr(obj, "__qualname__", None) or obj.__name__
        module = pickle.whichmodule(obj, name)
        found, parent = _look_up(obj, module, name)
        if found is not obj:
            raise pickle.PicklingError(
                f"save: cannot save {obj!r}: {module}.{name} is "
                + ("not there" if found is None else "another object")
                + ", so load could not find it again. Save a state_dict, or define it at the top "
                "of a module"
            )
        if "." in name:
            # A class inside a class: protocol 2 has only getattr for it.
            return self.write_reduced(obj, getattr, (parent, name.rpartition(".")[2]))
        module = module_in_file(module, name if isinstance(obj, BuiltinFunctionType) else "")
        module, name = _compat_pickle.REVERSE_NAME_MAPPING.get((module, name), (module, name))
        module = _compat_pickle.REVERSE_IMPORT_MAPPING.get(module, module)
        return self.put_global(module, name)

    def write_reduced(self, obj, function, args, state=None, items=None, pairs=None, setter=None):
        name = getattr(function, "__name__", "")
        if name == "__newobj__":
            self.write(args[0])
            self.write(args[1:])
            self.put(pickle.NEWOBJ)
        elif name == "__newobj_ex__":
            for part in args:
                self.write(part)
            self.put(pickle.NEWOBJ_EX)
        else:
            self.write(function)
            self.write(args)
            self.put(pickle.REDUCE)
        known = self._memo.get(id(obj))
        if known is not None:
            self.put(pickle.POP)  # it was written while its arguments were
            self._get(known[0])
        else:
            self.memoize(obj)
        if items is not None:
            self._append(items)
        if pairs is not None:
            self._set_items(pairs)
        if state is None:
            return
        if setter is None:
            self.write(state)
            self.put(pickle.BUILD)
        else:
            self.write(setter)
            self.write(obj)
            self.write(state)
            self.put(pickle.TUPLE2 + pickle.REDUCE + pickle.POP)


_PLAIN = {
    type(None): PickleWriter._write_none,
    bool: PickleWriter._write_bool,
    int: PickleWriter._write_int,
    float: PickleWriter._write_float,
    Later: PickleWriter._write_later,
}
_CONTAINERS = {
    str: PickleWriter._write_str,
    bytes: PickleWriter._write_bytes,
    tuple: PickleWriter._write_tuple,
    list: PickleWriter._write_list,
    dict: PickleWriter._write_dict,
}
_TUPLES = {1: pickle.TUPLE1, 2: pickle.TUPLE2, 3: pickle.TUPLE3}
_TYPES_OF_CONSTANTS = {type(c): c for c in (None, NotImplemented, ...)}


def _is_bound(function):
    owner = getattr(function, "__self__", None)
    return owner is not None and not isinstance(owner, type(sys))


def _batches(items):
    batch = []
    for item in items:
        batch.append(item)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def is_found_by_name(obj):
    """Whether a class or function is what its module has under its name."""
    name = getattr(obj, "__qualname__", None) or obj.__name__
    return (
        obj in _TYPES_OF_CONSTANTS or _look_up(obj, pickle.whichmodule(obj, name), name)[0] is obj
    )


def _look_up(obj, module, name):
    """(what `name` is in `module`, the object that has it)"""
    try:
        __import__(module)
        found = parent = sys.modules[module]
        for part in name.split("."):
            found, parent = getattr(found, part), found
        return found, parent
    except (ImportError, KeyError, AttributeError):
        return None, None
