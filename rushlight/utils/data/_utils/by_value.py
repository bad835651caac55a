"""Pickles functions and classes that another process could not import: lambdas, local ones, and
those of ``__main__``, where a notebook or a script without a file has everything.

A function goes as its code, its closure and the globals it names; a class as its attributes. What
can be imported goes by name, as usual, and tensors go through shared memory. Classes are in
class_by_value.py.
"""

import builtins
import dataclasses
import dis
import functools
import importlib
import io
import marshal
import pickle
import sys
import types
import typing
from multiprocessing.reduction import ForkingPickler

from rushlight._annotations import own_annotations
from rushlight.multiprocessing.reductions import Carrier
from rushlight.utils.data._utils.class_by_value import reduce_class

__all__ = ["dumps"]


def dumps(obj):
    """The pickled object, and the Carrier that keeps its shared memory."""
    buffer = io.BytesIO()
    with Carrier() as carrier:
        _ByValuePickler(buffer, pickle.HIGHEST_PROTOCOL).dump(obj)
    return buffer.getbuffer(), carrier


def _importable(obj):
    module, name = getattr(obj, "__module__", None), getattr(obj, "__qualname__", None)
    if module in (None, "__main__", "__mp_main__") or name is None or "<" in name:
        return False
    found = sys.modules.get(module)
    if found is None or not hasattr(found, "__spec__") or found.__spec__ is None:
        return False
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is obj


class _ByValuePickler(ForkingPickler):
    def reducer_override(self, obj):
        kind = type(obj)
        if kind is types.FunctionType:
            return NotImplemented if _importable(obj) else _reduce_function(obj)
        if isinstance(obj, type):
            if obj.__module__ == "builtins":
                return _reduce_builtin_type(obj)
            return NotImplemented if _importable(obj) else reduce_class(obj)
        reduce = _REDUCERS.get(kind)
        return NotImplemented if reduce is None else reduce(obj)


def _reduce_builtin_type(kind):
    """Types of the interpreter that have no name among the builtins are in the module types."""
    if getattr(builtins, kind.__name__, None) is kind:
        return NotImplemented
    for name, value in vars(types).items():
        if value is kind:
            return getattr, (types, name)
    return NotImplemented


def _reduce_code(code):
    return marshal.loads, (marshal.dumps(code),)


def _reduce_module(module):
    if module.__name__ == "__main__":
        return _main, ()
    return importlib.import_module, (module.__name__,)


def _main():
    return sys.modules["__main__"]


def _reduce_typevar(variable):
    if _importable_typevar(variable):
        return NotImplemented
    return typing.TypeVar, (variable.__name__, *variable.__constraints__)


def _importable_typevar(variable):
    module = sys.modules.get(variable.__module__)
    return variable.__module__ != "__main__" and (
        getattr(module, variable.__name__, None) is variable
    )


def _proxy(mapping):
    return types.MappingProxyType(mapping)


def _reduce_cached_property(prop):
    return _cached_property, (prop.func, prop.attrname)


def _cached_property(function, name):
    prop = functools.cached_property(function)
    if name is not None:
        prop.__set_name__(None, name)
    return prop


def _reduce_cached_function(function):
    if _importable(function):
        return NotImplemented
    return _cached_function, (function.__wrapped__, function.cache_parameters())


def _cached_function(function, parameters):
    return functools.lru_cache(**parameters)(function)


_REDUCERS = {
    types.CodeType: _reduce_code,
    types.ModuleType: _reduce_module,
    types.MappingProxyType: lambda proxy: (_proxy, (dict(proxy),)),
    property: lambda p: (property, (p.fget, p.fset, p.fdel, p.__doc__)),
    staticmethod: lambda m: (staticmethod, (m.__func__,)),
    classmethod: lambda m: (classmethod, (m.__func__,)),
    typing.TypeVar: _reduce_typevar,
    functools.cached_property: _reduce_cached_property,
    functools._lru_cache_wrapper: _reduce_cached_function,
    # What fields of dataclasses are compared with by identity has a name there.
    type(dataclasses.MISSING): lambda _: "MISSING",
    type(dataclasses.KW_ONLY): lambda _: "KW_ONLY",
    type(dataclasses._FIELD): lambda kind: kind.name,  # type: ignore[attr-defined]
}

_GLOBAL_CODES = {"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME",
                 "LOAD_FROM_DICT_OR_GLOBALS"}  # fmt: skip


def _names_in(code):
    """The global names that code uses, also in the functions inside it."""
    names = {i.argval for i in dis.get_instructions(code) if i.opname in _GLOBAL_CODES}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_in(constant)
    return names


def _reduce_function(function):
    code = function.__code__
    # Values that lead back to the function are found again, because they come as its state.
    state = {
        "closure": [_contents(cell) for cell in function.__closure__ or ()],
        "globals": _globals_of(function),
        "defaults": function.__defaults__,
        "kwdefaults": function.__kwdefaults__,
        "dict": function.__dict__,
        "annotations": own_annotations(function),
        "doc": function.__doc__,
        "qualname": function.__qualname__,
    }
    base = (code, function.__module__, function.__name__)
    return _make_function, base, state, None, None, _fill_function


def _globals_of(function):
    """The globals that have to go along; those of an importable module are there already."""
    module = sys.modules.get(function.__module__)
    own = function.__globals__
    if module is not None and function.__module__ not in ("__main__", "__mp_main__"):
        if module.__dict__ is own and getattr(module, "__spec__", None) is not None:
            return {}
    return {name: own[name] for name in sorted(_names_in(function.__code__)) if name in own}


def _contents(cell):
    """The value of a cell in a tuple, which is empty for a cell that has none yet."""
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def _make_function(code, module, name):
    home = sys.modules.get(module) if module else None
    if home is None and module and module not in ("__main__", "__mp_main__"):
        try:
            home = importlib.import_module(module)
        except ImportError:
            home = None
    if home is None:
        home = sys.modules["__main__"]
    cells = tuple(types.CellType() for _ in code.co_freevars)
    function = types.FunctionType(code, home.__dict__, name, None, cells)
    function.__module__ = module
    return function


def _fill_function(function, state):
    for cell, contents in zip(function.__closure__ or (), state["closure"], strict=True):
        if contents:
            cell.cell_contents = contents[0]
    for name, value in state["globals"].items():
        function.__globals__.setdefault(name, value)
    function.__defaults__ = state["defaults"]
    function.__kwdefaults__ = state["kwdefaults"]
    function.__dict__.update(state["dict"])
    function.__annotations__ = state["annotations"]
    function.__doc__ = state["doc"]
    function.__qualname__ = state["qualname"]
    return function
