"""compile(backend=f): a backend of the user's, which is given graphs.

A call is traced once for each kind of arguments; the trace becomes an fx GraphModule whose
placeholders are parameters, buffers, constants and inputs, and whose output is a tuple. The backend
gets it with the tensors for the placeholders, and gives what is called with such tensors from then
on. What a trace cannot see (a branch by a tensor's value, regions of no_grad and autocast inside)
runs in Python, with a warning; fullgraph=True makes it an error.
"""

from __future__ import annotations

import functools
import inspect
import threading
import warnings
from collections.abc import Callable
from typing import Any

from rushlight import _C
from rushlight._C import Tensor

__all__ = ["UserBackend", "find_backend", "register_backend", "registered_names"]

_registered: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {}


def register_backend(
    compiler_fn: Callable[..., Any] | None = None,
    name: str | None = None,
    tags: tuple[str, ...] = (),
) -> Callable[..., Any]:
    """Gives a backend a name for compile(backend=name); usable as a decorator."""
    if compiler_fn is None:
        return lambda function: register_backend(function, name, tags)
    if not callable(compiler_fn):
        raise TypeError(f"register_backend: expected a function, got {type(compiler_fn).__name__}")
    _registered[name or compiler_fn.__name__] = (compiler_fn, tuple(tags))
    return compiler_fn


def registered_names(exclude_tags: tuple[str, ...] | None) -> list[str]:
    """The names, but for those with one of the tags."""
    return sorted(
        name for name, (_, tags) in _registered.items() if not set(tags) & set(exclude_tags or ())
    )


def find_backend(backend: Any) -> Callable[..., Any] | None:
    """The function that a backend is; None for those of the package."""
    if callable(backend):
        return backend
    return _registered[backend][0] if backend in _registered else None


class _Unseen(Exception):
    """The call cannot be a graph."""


class UserBackend:
    """One compiled function, with the graphs that it has met."""

    def __init__(self, backend: Callable[..., Any], name: str, fullgraph: bool) -> None:
        self.backend, self.name, self.fullgraph = backend, name, fullgraph
        self.entries: dict[Any, Any] = {}
        self.lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        return {"backend": self.backend, "name": self.name, "fullgraph": self.fullgraph}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def call(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Calls the function through the backend."""
        from rushlight.export._inputs import Packing

        if _C._jit_is_tracing():
            return function(*args, **kwargs)
        try:
            packing = Packing((args, kwargs), "an argument")
        except RuntimeError as error:
            return self._in_python(str(error).removeprefix("export: "), function, args, kwargs)
        tensors = packing.unpack((args, kwargs))
        parts = _modules_of(function)
        key = self._key(packing, tensors, parts)
        with self.lock:
            if key not in self.entries:
                self.entries[key] = self._entry(function, packing, tensors, parts)
            entry = self.entries[key]
        if isinstance(entry, str):
            return self._in_python(entry, function, args, kwargs)
        compiled, state, output = entry
        found = compiled(*state(), *tensors)
        return output.pack(found if isinstance(found, tuple | list) else (found,))

    @staticmethod
    def _key(packing, tensors, parts):
        facts = tuple(
            (tuple(t.shape), t.stride(), t.dtype, t.device, t.requires_grad, type(t))
            for t in tensors
        )
        fixed = tuple((type(v), v) for v in packing.fixed)
        modes = tuple(m.training for part in parts for m in part.modules())
        states = tuple(id(p) for part in parts for p in part.parameters())
        kinds = (_C.is_grad_enabled(), _C.is_inference_mode_enabled(),
                 *(_C.is_autocast_enabled(d) for d in ("cpu", "cuda")))  # fmt: skip
        return facts, fixed, str(packing.spec), modes, states, kinds

    def _entry(self, function, packing, tensors, parts):
        """(compiled, the tensors before the inputs, how outputs are packed), or why not."""
        try:
            module, state, output = _captured(function, packing, tensors, parts)
        except _Unseen as why:
            return str(why)
        compiled = self.backend(module, [*state(), *tensors])
        if not callable(compiled):
            raise TypeError(
                f"compile: the backend {getattr(self.backend, '__name__', self.backend)} must "
                f"return a callable, got {type(compiled).__name__}"
            )
        return compiled, state, output

    def _in_python(self, why, function, args, kwargs):
        text = f"compile: {self.name} cannot be given to the backend as a graph: {why}"
        if self.fullgraph:
            raise RuntimeError(text)
        warnings.warn(f"{text}; it runs as it is", stacklevel=4)
        return function(*args, **kwargs)


def _modules_of(function):
    """The modules whose parameters a function may use: itself, its self, what it closes over, and
    the globals that it names."""
    from rushlight.nn import Module

    if isinstance(function, Module):
        return [function]
    found = [getattr(function, "__self__", None)]
    if isinstance(function, functools.partial):
        found += [*function.args, *function.keywords.values()]
        function = function.func
    plain = inspect.unwrap(getattr(function, "__func__", function))
    if inspect.isfunction(plain):
        closed = inspect.getclosurevars(plain)
        found += [*closed.nonlocals.values(), *closed.globals.values()]
    modules = [m for m in found if isinstance(m, Module)]
    return list({id(m): m for m in modules}.values())


def _captured(function, packing, tensors, parts):
    """(GraphModule, what gives the tensors before the inputs, Packing of the outputs)."""
    from rushlight.export._graph import graph_module_of, program_of
    from rushlight.export._inputs import Packing
    from rushlight.jit._calls import noted
    from rushlight.jit._program import Code
    from rushlight.jit._trace import _state_of, _Undone
    from rushlight.nn import ModuleList
    from rushlight.utils._pytree import tree_leaves

    rows, aliases = _state_of(parts[0] if len(parts) == 1 else ModuleList(parts))
    buffers = [row[1] for row in rows if not row[2]]
    tracer = _C._jit_tracer(rows, aliases, False, False, None)
    given = [_C._jit_add_input(tracer, f"arg{i}_1", t) for i, t in enumerate(tensors)]
    copies = [t.detach().clone() for t in tensors]
    args, kwargs = packing.pack(given)
    with _Undone(buffers), noted() as calls:
        _C._jit_watch(tracer, True)
        try:
            result = function(*args, **kwargs)
        finally:
            _C._jit_watch(tracer, False)
            _restore(tensors, copies)
    if calls:
        raise _Unseen("it calls a scripted function or module, whose branches a graph would lose")
    warned = _C._jit_warnings(tracer)
    if warned:
        text, file, line = warned[0]
        raise _Unseen(f"{text.removeprefix('trace: ').partition(';')[0]} (at {file}:{line})")
    try:
        output = Packing(result, "the result")
        leaves = tuple(x for x in tree_leaves(result) if isinstance(x, Tensor))
        code = Code(_C._jit_finish(tracer, "forward", leaves))
        program = program_of(code)
    except RuntimeError as error:
        raise _Unseen(str(error).removeprefix("trace: ").removeprefix("export: ")) from None
    if any("with" in s for f in program["functions"] for s in f["body"]):
        raise _Unseen("it enters no_grad, enable_grad or autocast, which graphs do not have")
    module = graph_module_of(program, code)
    order = [i for kind in (True, False) for i, row in enumerate(rows) if row[2] is kind]

    def state():
        return [*(rows[i][1] for i in order), *code.constants]

    return module, state, output


def _restore(tensors, copies):
    """What the traced call wrote to its arguments is undone: the compiled one does it again."""
    from rushlight.autograd import no_grad

    with no_grad():
        for tensor, copy in zip(tensors, copies, strict=True):
            if not _C.equal(tensor, copy):
                tensor.copy_(copy)
