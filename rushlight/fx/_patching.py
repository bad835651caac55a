"""What is replaced while a program is traced: names of modules and classes, and the code of the
library's functions that are written in Python.

Note [Functions whose code is exchanged]
Operators of the core ask the __torch_function__ of their arguments; functions written in Python do
not, since nobody should pay for that who does not trace. While a trace runs, or somebody holds a
Proxy that was made without one, the code of such a function is exchanged for a few lines that
record the call when a Proxy is among the arguments and run the function as it was when there is
none, as in another thread. The function stays the same object, so it does not matter under which
name a program has imported it.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import weakref
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight._names.lazy_table import SUBMODULES
from rushlight.fx.proxy import find_proxy
from rushlight.nn.modules.module import Module, use_slots

_lock = threading.RLock()
_missing = object()


class Patcher:
    """A with block at whose end all that was replaced is as before."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._seen: set[int] = set()
        self._modules: list[type] = []  # classes of modules among those whose methods are replaced

    def patch(
        self,
        frame_dict: dict[str, Any],
        name: str,
        new_fn: Callable[..., Any],
        deduplicate: bool = True,
    ) -> None:
        """Replaces a name of a module; builtins get one there for the time."""
        before = frame_dict.get(name, _missing)
        if deduplicate and getattr(before, "__fx_already_patched", False):
            return
        new_fn.__fx_already_patched = True  # type: ignore[attr-defined]
        frame_dict[name] = new_fn
        if before is _missing:
            self._undo.append(lambda: frame_dict.pop(name, None))
        else:
            self._undo.append(lambda: frame_dict.__setitem__(name, before))

    def patch_method(
        self, cls: type, name: str, new_fn: Callable[..., Any], deduplicate: bool = True
    ) -> None:
        """Replaces a method of a class."""
        inherited = name not in cls.__dict__
        before = getattr(cls, name)
        if deduplicate and getattr(before, "__fx_already_patched", False):
            return
        new_fn.__fx_already_patched = True  # type: ignore[attr-defined]
        setattr(cls, name, new_fn)
        if issubclass(cls, Module):
            self._modules.append(cls)
        self._undo.append(lambda: delattr(cls, name) if inherited else setattr(cls, name, before))

    def visit_once(self, thing: Any) -> bool:
        """True the first time."""
        if id(thing) in self._seen:
            return False
        self._seen.add(id(thing))
        return True

    def __enter__(self) -> Patcher:
        _lock.acquire()
        _count(1)
        return self

    def __exit__(self, *error: object) -> None:
        try:
            while self._undo:
                self._undo.pop()()
            for cls in self._modules:
                use_slots(cls)
        finally:
            _count(-1)
            _lock.release()


# ---- functions that programs wrap


def wrapped_function(orig_fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(orig_fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy(*args, kwargs)
        if proxy is None:
            return orig_fn(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", orig_fn, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    return wrapped


def wrapped_method(cls: type, name: str) -> Callable[..., Any]:
    orig_fn = getattr(cls, name)

    @functools.wraps(orig_fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy(*args, kwargs)
        if proxy is None:
            return orig_fn(*args, **kwargs)
        return proxy.tracer.create_proxy("call_method", name, args, kwargs)

    return wrapped


# ---- functions of the library

# What decides something while a program is traced, or takes functions.
_NOT_RECORDED = frozenset(
    """are_deterministic_algorithms_enabled broadcast_shapes compile compiled_with_cxx11_abi cond
    from_file get_autocast_cpu_dtype get_autocast_gpu_dtype get_deterministic_debug_mode
    get_device_module get_file_path get_float32_matmul_precision get_printoptions
    is_autocast_cpu_enabled is_deterministic_algorithms_warn_only_enabled is_storage is_tensor
    is_vulkan_available is_warn_always_enabled load lobpcg names_missing_from printoptions save
    typename use_deterministic_algorithms vmap while_loop
    calculate_gain __dir__ __deepcopy__ __reduce_ex__ __setstate__ module_load __array_wrap__
    __array_namespace__ new apply_ map_ map2_ storage set_ to_device""".split()
)
_SPACES = ("rushlight.nn.functional", "rushlight.nn.init", "rushlight", "rushlight.functional")

_depth = 0  # how many traces run, and how many tracers outside of traces are alive
_exchanged = False
_exchanges: list[tuple[FunctionType, CodeType, CodeType]] | None = None  # function, own, shim
_depth_lock = threading.RLock()


def _count(change: int) -> None:
    """One trace more or less; the first one exchanges the functions' code, the last one restores
    it. A tracer may die, and so call this, while this runs: hence the loop."""
    global _depth, _exchanged
    with _depth_lock:
        _depth += change
        _C._count_symbolic_traces(change)
        while _exchanged != (_depth > 0):
            _exchanged = _depth > 0
            for function, own, shim in _all_exchanges():
                function.__code__ = shim if _exchanged else own


def listen_while_alive(tracer: Any) -> None:
    """Calls with Proxies of a tracer outside of any trace are recorded as long as it lives."""
    _count(1)
    weakref.finalize(tracer, _count, -1).atexit = False


def _all_exchanges() -> list[tuple[FunctionType, CodeType, CodeType]]:
    global _exchanges
    if _exchanges is None:
        _exchanges = [(inner, inner.__code__, shim) for inner, shim in _shims().items()]
    return _exchanges


def _shims() -> dict[FunctionType, CodeType]:
    found: dict[FunctionType, CodeType] = {}
    for space in _SPACES:
        by_keyword = space.startswith("rushlight.nn.")
        module = sys.modules.get(space) or __import__(space, fromlist=["_"])
        for name in [*dir(module), "_assert"]:
            hidden = name.startswith(("_", "set_", "sparse_")) and name != "_assert"
            if hidden or name in _NOT_RECORDED or name in SUBMODULES:
                continue
            public = getattr(module, name, None)
            if isinstance(public, FunctionType):
                _add_shim(found, public, _recording(public, by_keyword))
    for name, method in list(vars(Tensor).items()):
        if isinstance(method, FunctionType) and name not in _NOT_RECORDED:
            _add_shim(found, method, _recording_method(name))
    return found


def _add_shim(
    found: dict[FunctionType, CodeType], public: FunctionType, record: Callable[..., Any]
) -> None:
    inner = inspect.unwrap(public)
    if public.__module__ == "rushlight._names.publish" or _asks_by_itself(public):
        return
    if not isinstance(inner, FunctionType) or inner in found:
        return
    own = inner.__code__
    twin = FunctionType(own, inner.__globals__, inner.__name__, inner.__defaults__,
                        inner.__closure__)  # fmt: skip
    twin.__kwdefaults__ = inner.__kwdefaults__

    def hook(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        proxy = find_proxy(*args, kwargs)
        if proxy is None:
            return twin(*args, **kwargs)
        return record(proxy, args, kwargs)

    found[inner] = _code_calling(hook, own)


def _asks_by_itself(public: FunctionType) -> bool:
    """Whether a function of _names/publish.py, which asks __torch_function__, is around it."""
    return public.__code__.co_filename.endswith("publish.py")


def _recording(public: Callable[..., Any], by_keyword: bool) -> Callable[..., Any]:
    """Records a call as PyTorch's functions do: with by_keyword, what has a default is given by
    name, and all of that."""
    signature = inspect.signature(public)
    plain = all(p.kind is p.POSITIONAL_OR_KEYWORD for p in signature.parameters.values())

    def record(proxy: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if by_keyword:
            bound = signature.bind(*args, **kwargs)
            if plain:
                bound.apply_defaults()
                given = bound.arguments
                required = [
                    name for name, p in signature.parameters.items() if p.default is p.empty
                ]
                args = tuple(given.pop(name) for name in required)
                kwargs = dict(given)
        return type(proxy).__torch_function__(public, (type(proxy),), args, kwargs)

    return record


def _recording_method(name: str) -> Callable[..., Any]:
    def record(proxy: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return proxy.tracer.create_proxy("call_method", name, args, kwargs)

    return record


_HOOK = "\0hook"  # stands for the hook among the constants


def _code_calling(hook: Callable[..., Any], own: CodeType) -> CodeType:
    """Code that hands its arguments to the hook, and fits the function whose code is `own`."""
    cells = [f"cell{i}" for i in range(len(own.co_freevars))]
    lines = ["def around():", *(f"    {cell} = None" for cell in cells)]
    lines += ["    def shim(*args, **kwargs):", f"        hook = {_HOOK!r}",
              "        return hook(args, kwargs)"]  # fmt: skip
    # Never reached; a function's code may only be replaced by one with as many of these.
    lines += [f"        {cell}" for cell in cells]
    space: dict[str, Any] = {}
    exec("\n".join([*lines, "    return shim"]), space)
    code = space["around"]().__code__
    constants = tuple(hook if constant == _HOOK else constant for constant in code.co_consts)
    return code.replace(co_consts=constants, co_name=own.co_name, co_filename=own.co_filename,
                        co_firstlineno=own.co_firstlineno)  # fmt: skip
