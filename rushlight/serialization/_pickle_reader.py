"""An interpreter of pickle opcodes that can build data and do nothing else.

It knows the opcodes of all protocols that stand for data. What a class or function name in the file
means is decided by `find_global`, which knows a list; calls go through the entry found there and
never through the object itself. The bounds: a file of n bytes makes at most n objects and n memo
entries, strings are no longer than the file, keys of dicts and members of sets are checked before
they are hashed (hashing descends into tuples, in C and without a limit of its own), and the result
may be nested no deeper than Python's own recursion goes.
"""

import pickle
import struct
from collections import Counter, OrderedDict

_MOST_MARKS = 10_000  # open at once
_MOST_KEY_PARTS = 1_000  # tuples inside tuples, counted with repetition
_MOST_LARGE_KEYS = 10_000  # ints of any size can be made to collide, in time n * n
_MOST_LEVELS = 1_000
_MOST_DIGITS = 4_300  # text of an int; as Python's own limit

_REFUSED = {"INST", "OBJ", "EXT1", "EXT2", "EXT4", "PERSID", "NEXT_BUFFER", "READONLY_BUFFER"}


class Global:
    """A name that a file may use: what it stands for, and what calling it does (None: nothing)."""

    __slots__ = ("call", "is_users", "name", "value")

    def __init__(self, name, value, call=None, is_users=False):
        self.name, self.value, self.call, self.is_users = name, value, call, is_users


class PickleReader:
    def __init__(self, data, find_global, persistent_load, encoding="utf-8", at=0):
        self._data = data
        self._at = at
        self._find_global = find_global
        self._persistent_load = persistent_load
        self._encoding = encoding
        self._stack = []
        self._marked = []
        self._memo = {}
        self._globals = {}  # id of the value -> Global
        self._users_types = set()
        self._large_keys = 0
        self._in_storages = False

    def load(self):
        """The object, or UnpicklingError. Afterwards `end` is where the pickle ended."""
        dispatch = _DISPATCH
        data = self._data
        start = self._at
        try:
            while True:
                start = self._at
                opcode = data[start]
                self._at = start + 1
                if opcode == 46:  # STOP
                    break
                dispatch[opcode](self)
            if len(self._stack) != 1 or self._marked:
                raise pickle.UnpicklingError("the pickle ends with a stack of more than one object")
        except pickle.UnpicklingError as error:
            raise pickle.UnpicklingError(f"load: {error} (at byte {start})") from error.__cause__
        except (MemoryError, RuntimeError):
            raise  # about storages, devices or memory, and clear as it is
        except IndexError:
            if self._in_storages:
                raise
            if start >= len(data):
                raise pickle.UnpicklingError("load: the pickle is cut short") from None
            raise _corrupt(start, "the stack or the data is too short") from None
        except Exception as error:
            if self._in_storages:
                raise  # from the user's map_location
            raise _corrupt(start, f"{type(error).__name__}: {error}") from error
        self.end = self._at
        result = self._stack.pop()
        _check_depth(result)
        return result

    # Bytes.

    def _take(self, n):
        at = self._at
        end = at + n
        if n < 0 or end > len(self._data):
            raise pickle.UnpicklingError("the pickle is cut short")
        self._at = end
        return self._data[at:end]

    def _number(self, form, n):
        return struct.unpack(form, self._take(n))[0]

    def _line(self):
        end = self._data.find(b"\n", self._at)
        if end < 0:
            raise pickle.UnpicklingError("the pickle is cut short")
        line = self._data[self._at : end]
        self._at = end + 1
        return line

    def _short_line(self):
        line = self._line()
        if len(line) > _MOST_DIGITS:
            raise pickle.UnpicklingError(f"a number of {len(line)} characters is refused")
        return line.decode("ascii")

    # The stack and the memo.

    def _pop_mark(self):
        items = self._stack
        if not self._marked:
            raise pickle.UnpicklingError("a MARK is missing")
        self._stack = self._marked.pop()
        return items

    def _mark(self):
        if len(self._marked) >= _MOST_MARKS:
            raise pickle.UnpicklingError(f"more than {_MOST_MARKS} open MARKs; nested too deeply")
        self._marked.append(self._stack)
        self._stack = []

    def _pop(self):
        # POP removes a mark when nothing lies above it.
        if self._stack:
            self._stack.pop()
        else:
            self._pop_mark()

    def _get(self, key):
        if key not in self._memo:
            raise pickle.UnpicklingError(f"memo entry {key} is read before it is written")
        self._stack.append(self._memo[key])

    # Containers.

    def _target(self, kinds, opcode):
        target = self._stack[-1]
        if type(target) not in kinds and type(target) not in self._users_types:
            raise pickle.UnpicklingError(f"{opcode} on an object of type {type(target).__name__}")
        return target

    def _extend(self, items):
        target = self._target((list,), "APPEND")
        if type(target) is list:
            target.extend(items)
        else:
            for item in items:
                target.append(item)

    def _set_items(self, items):
        target = self._target((dict, OrderedDict, Counter), "SETITEM")
        if len(items) % 2:
            raise pickle.UnpicklingError("a dict has a key without a value")
        for i in range(0, len(items), 2):
            self.check_key(items[i])
            target[items[i]] = items[i + 1]

    def _add_items(self, items):
        target = self._target((set,), "ADDITEMS")
        for item in items:
            self.check_key(item)
            target.add(item)

    def check_key(self, key):
        """Raises unless hashing the key is quick."""
        kind = type(key)
        if kind is str:
            return
        if kind is int:
            self._check_int_key(key)
        elif kind in (tuple, frozenset):
            parts, left = [key], _MOST_KEY_PARTS
            while parts:
                part = parts.pop()
                if type(part) in (tuple, frozenset):
                    left -= 1 + len(part)
                    if left < 0:
                        raise pickle.UnpicklingError("a key of a dict or set is too large")
                    parts.extend(part)
                elif type(part) is int:
                    self._check_int_key(part)

    def _check_int_key(self, key):
        if key.bit_length() > 64:
            self._large_keys += 1
            if self._large_keys > _MOST_LARGE_KEYS:
                raise pickle.UnpicklingError("too many keys that are ints of more than 64 bits")

    # Names and calls. The dry run of _scan.py replaces these.

    def _push_global(self, module, name):
        found = self._find_global(module, name)
        self._globals[id(found.value)] = found  # and it keeps the value alive
        if found.is_users and isinstance(found.value, type):
            self._users_types.add(found.value)
        self._stack.append(found.value)

    def _allowed(self, value):
        found = self._globals.get(id(value))
        if found is None:
            raise pickle.UnpicklingError(
                f"the file calls an object of type {type(value).__name__}, which is not a name "
                "from the list of safe globals"
            )
        if found.call is None:
            raise pickle.UnpicklingError(f"{found.name} may be named in a file, but not called")
        return found

    def _call(self, function, args):
        if type(args) is not tuple:
            raise pickle.UnpicklingError("the arguments of a call are not a tuple")
        return self._allowed(function).call(self, *args)

    def _new(self, cls, args, kwargs):
        found = self._allowed(cls)
        if type(args) is not tuple or type(kwargs) is not dict:
            raise pickle.UnpicklingError("the arguments of a constructor are not a tuple")
        if found.is_users:
            if not isinstance(cls, type):
                raise pickle.UnpicklingError(f"{found.name} is not a class")
            return cls.__new__(cls, *args, **kwargs)
        if kwargs:
            raise pickle.UnpicklingError(f"{found.name} takes no arguments by name in a file")
        return found.call(self, *args)

    def _build(self, instance, state):
        kind = type(instance)
        if kind is OrderedDict:
            if type(state) is not dict or not all(type(key) is str for key in state):
                raise pickle.UnpicklingError("the attributes of an OrderedDict must be a dict")
            instance.__dict__.update(state)
            return
        if not any(base in self._users_types for base in kind.__mro__):
            raise pickle.UnpicklingError(
                f"the file sets attributes of an object of type {kind.__name__}; only OrderedDict "
                "and the classes given to add_safe_globals may have theirs set"
            )
        if hasattr(instance, "__setstate__"):
            instance.__setstate__(state)
            return
        slots = None
        if type(state) is tuple and len(state) == 2:
            state, slots = state
        if state:
            instance.__dict__.update(state)
        for name, value in (slots or {}).items():
            setattr(instance, name, value)

    def _load_persistent(self, pid):
        if type(pid) is not tuple:
            raise pickle.UnpicklingError("the id of a storage is not a tuple")
        self._in_storages = True
        storage = self._persistent_load(pid)
        self._in_storages = False
        return storage

    # Opcodes with more to them than one line.

    def _op_stack_global(self):
        name, module = self._stack.pop(), self._stack.pop()
        if type(name) is not str or type(module) is not str:
            raise pickle.UnpicklingError("STACK_GLOBAL on objects that are not strings")
        self._push_global(module, name)

    def _op_global(self):
        module = self._line().decode("utf-8")
        self._push_global(module, self._line().decode("utf-8"))

    def _op_reduce(self):
        args = self._stack.pop()
        self._stack[-1] = self._call(self._stack[-1], args)

    def _op_newobj(self):
        args = self._stack.pop()
        self._stack[-1] = self._new(self._stack[-1], args, {})

    def _op_newobj_ex(self):
        kwargs, args = self._stack.pop(), self._stack.pop()
        self._stack[-1] = self._new(self._stack[-1], args, kwargs)

    def _op_build(self):
        state = self._stack.pop()
        self._build(self._stack[-1], state)

    def _op_persistent(self):
        self._stack[-1] = self._load_persistent(self._stack[-1])

    def _op_proto(self):
        version = self._take(1)[0]
        if version > pickle.HIGHEST_PROTOCOL:
            raise pickle.UnpicklingError(f"pickle protocol {version} is not known")

    def _op_append(self):
        item = self._stack.pop()
        self._extend((item,))

    def _op_setitem(self):
        value, key = self._stack.pop(), self._stack.pop()
        self._set_items((key, value))

    def _op_appends(self):
        items = self._pop_mark()
        self._extend(items)

    def _op_setitems(self):
        items = self._pop_mark()
        self._set_items(items)

    def _op_additems(self):
        items = self._pop_mark()
        self._add_items(items)

    def _op_tuple(self):
        items = self._pop_mark()
        self._stack.append(tuple(items))

    def _op_list(self):
        items = self._pop_mark()
        self._stack.append(items)

    def _op_dict(self):
        items = self._pop_mark()
        self._stack.append({})
        self._set_items(items)

    def _op_frozenset(self):
        items = self._pop_mark()
        for item in items:
            self.check_key(item)
        self._stack.append(frozenset(items))

    def _op_tuple1(self):
        self._stack[-1] = (self._stack[-1],)

    def _op_tuple2(self):
        a, b = self._stack[-2:]
        self._stack[-2:] = [(a, b)]

    def _op_tuple3(self):
        a, b, c = self._stack[-3:]
        self._stack[-3:] = [(a, b, c)]

    def _op_binput(self):
        self._memo[self._take(1)[0]] = self._stack[-1]

    def _op_long_binput(self):
        self._memo[self._number("<I", 4)] = self._stack[-1]

    def _op_put(self):
        self._memo[int(self._short_line())] = self._stack[-1]

    def _op_memoize(self):
        self._memo[len(self._memo)] = self._stack[-1]

    def _op_int(self):
        text = self._short_line()
        self._stack.append({"00": False, "01": True}[text] if text in ("00", "01") else int(text))

    def _op_long(self):
        self._stack.append(int(self._short_line().rstrip("L")))

    def _op_float(self):
        self._stack.append(float(self._short_line()))

    def _op_string(self):
        import codecs

        line = self._line()
        if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in (b"'", b'"'):
            raise pickle.UnpicklingError("the text of STRING lacks its quotes")
        self._push_old_string(codecs.escape_decode(line[1:-1])[0])

    def _push_old_string(self, data):
        # Python 2's str, text or bytes; the caller of load knows which.
        self._stack.append(data if self._encoding == "bytes" else data.decode(self._encoding))

    def _push_text(self, length):
        self._stack.append(str(self._take(length), "utf-8", "surrogatepass"))

    def _push_bytes(self, length):
        self._stack.append(bytes(self._take(length)))

    def _push_long(self, length):
        self._stack.append(pickle.decode_long(self._take(length)))


def _push(make):
    return lambda self: self._stack.append(make())


def _pushing(form, n):
    def run(self):
        self._stack.append(struct.unpack(form, self._take(n))[0])

    return run


_R = PickleReader
_OPCODES = {
    pickle.PROTO: _R._op_proto,
    pickle.FRAME: lambda self: self._take(8),
    pickle.MARK: _R._mark,
    pickle.POP: _R._pop,
    pickle.POP_MARK: _R._pop_mark,
    pickle.DUP: lambda self: self._stack.append(self._stack[-1]),
    pickle.NONE: _push(lambda: None),
    pickle.NEWTRUE: _push(lambda: True),
    pickle.NEWFALSE: _push(lambda: False),
    pickle.EMPTY_TUPLE: _push(tuple),
    pickle.EMPTY_LIST: _push(list),
    pickle.EMPTY_DICT: _push(dict),
    pickle.EMPTY_SET: _push(set),
    pickle.BININT: _pushing("<i", 4),
    pickle.BININT1: _pushing("<B", 1),
    pickle.BININT2: _pushing("<H", 2),
    pickle.BINFLOAT: _pushing(">d", 8),
    pickle.LONG1: lambda self: self._push_long(self._number("<B", 1)),
    pickle.LONG4: lambda self: self._push_long(self._number("<i", 4)),
    pickle.INT: _R._op_int,
    pickle.LONG: _R._op_long,
    pickle.FLOAT: _R._op_float,
    pickle.STRING: _R._op_string,
    pickle.BINSTRING: lambda self: self._push_old_string(self._take(self._number("<i", 4))),
    pickle.SHORT_BINSTRING: lambda self: self._push_old_string(self._take(self._number("<B", 1))),
    pickle.UNICODE: lambda self: self._stack.append(str(self._line(), "raw-unicode-escape")),
    pickle.BINUNICODE: lambda self: self._push_text(self._number("<I", 4)),
    pickle.SHORT_BINUNICODE: lambda self: self._push_text(self._number("<B", 1)),
    pickle.BINUNICODE8: lambda self: self._push_text(self._number("<Q", 8)),
    pickle.BINBYTES: lambda self: self._push_bytes(self._number("<I", 4)),
    pickle.SHORT_BINBYTES: lambda self: self._push_bytes(self._number("<B", 1)),
    pickle.BINBYTES8: lambda self: self._push_bytes(self._number("<Q", 8)),
    pickle.BYTEARRAY8: lambda self: self._stack.append(
        bytearray(self._take(self._number("<Q", 8)))
    ),
    pickle.TUPLE: _R._op_tuple,
    pickle.TUPLE1: _R._op_tuple1,
    pickle.TUPLE2: _R._op_tuple2,
    pickle.TUPLE3: _R._op_tuple3,
    pickle.LIST: _R._op_list,
    pickle.DICT: _R._op_dict,
    pickle.FROZENSET: _R._op_frozenset,
    pickle.APPEND: _R._op_append,
    pickle.APPENDS: _R._op_appends,
    pickle.SETITEM: _R._op_setitem,
    pickle.SETITEMS: _R._op_setitems,
    pickle.ADDITEMS: _R._op_additems,
    pickle.BINGET: lambda self: self._get(self._take(1)[0]),
    pickle.LONG_BINGET: lambda self: self._get(self._number("<I", 4)),
    pickle.GET: lambda self: self._get(int(self._short_line())),
    pickle.BINPUT: _R._op_binput,
    pickle.LONG_BINPUT: _R._op_long_binput,
    pickle.PUT: _R._op_put,
    pickle.MEMOIZE: _R._op_memoize,
    pickle.GLOBAL: _R._op_global,
    pickle.STACK_GLOBAL: _R._op_stack_global,
    pickle.REDUCE: _R._op_reduce,
    pickle.NEWOBJ: _R._op_newobj,
    pickle.NEWOBJ_EX: _R._op_newobj_ex,
    pickle.BUILD: _R._op_build,
    pickle.BINPERSID: _R._op_persistent,
}


def _refuse(opcode):
    known = {getattr(pickle, name)[0]: name for name in _REFUSED}

    def run(self):
        if opcode in known:
            raise pickle.UnpicklingError(
                f"the opcode {known[opcode]} is refused: it finds or makes objects in a way that "
                "saved tensors do not need"
            )
        raise pickle.UnpicklingError(
            f"the byte {opcode:#04x} is not an opcode; the file is damaged"
        )

    return run


_DISPATCH = [_refuse(opcode) for opcode in range(256)]
for _opcode, _function in _OPCODES.items():
    _DISPATCH[_opcode[0]] = _function


def _corrupt(at, what):
    return pickle.UnpicklingError(f"load: the pickle is damaged at byte {at}: {what}")


def _check_depth(result):
    """Levels are counted from the outside; an object that holds itself has a level all the same."""
    seen, level = set(), [result]
    for _ in range(_MOST_LEVELS):
        inner = []
        for item in level:
            kind = type(item)
            if kind in (list, tuple, set, frozenset):
                children = item
            elif kind in (dict, OrderedDict):
                children = item.values()
            else:
                continue
            if id(item) not in seen:
                seen.add(id(item))
                inner.extend(children)
        level = inner
        if not level:
            return
    raise pickle.UnpicklingError(f"load: the object is nested more than {_MOST_LEVELS} levels deep")
