"""Custom operators in Python: a function, its gradient, and what it is called."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from rushlight import _C
from rushlight._names.missing import fill, not_available
from rushlight.autograd import Function
from rushlight.types import _F, Self, _dtype

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "impl",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_vmap",
    "triton_op",
    "wrap_triton",
]

_registered = {}  # "namespace::name" -> CustomOpDef


class CustomOpDef:
    """A custom operator; calling it runs its function, and its gradient if it has one."""

    def __init__(
        self, name: str, function: Callable[..., Any], mutates_args: tuple[Any, ...] = ()
    ) -> None:
        self._qualname = name
        self._function = function
        self._kernels = {}
        self._fake = self._function_class = None
        functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = self._bound(args, kwargs)
        if self._function_class is not None:
            return self._function_class.apply(*args)
        return self._run(*args, **kwargs)

    @property
    def default(self) -> Self:
        return self

    def _bound(self, args, kwargs):
        """All arguments in order where a gradient needs them so."""
        if self._function_class is None or not kwargs:
            return args, kwargs
        import inspect

        bound = inspect.signature(self._function).bind(*args, **kwargs)
        bound.apply_defaults()
        return tuple(bound.arguments.values()), {}

    def _run(self, *args, **kwargs):
        tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, _C.Tensor)]
        kind = tensors[0].device.type if tensors else "cpu"
        if kind == "meta" and self._fake is not None:
            return self._fake(*args, **kwargs)
        return self._kernels.get(kind, self._function)(*args, **kwargs)

    def _implement(self, function):
        self._function = function

    def register_kernel(
        self, device_types: str | Sequence[str] | None, fn: Callable | None = None, /
    ) -> Callable:
        """The function for some kinds of device."""
        kinds = [device_types] if isinstance(device_types, str) else device_types

        def register(function):
            self._kernels |= dict.fromkeys(kinds or ["cpu", "cuda"], function)
            return function

        return register if fn is None else register(fn)

    def register_fake(self, fn: Callable | None = None, /) -> Callable:
        """The function that gives shapes only, for meta tensors."""

        def register(function):
            self._fake = function
            return function

        return register if fn is None else register(fn)

    def register_vmap(self, func: Callable | None = None) -> Callable:
        """Kept out of use: vmap runs the function sample by sample."""
        return (lambda function: function) if func is None else func

    def register_autocast(self, device_type: str, cast_inputs: _dtype) -> None:
        """Not needed: the function sees what it is given."""

    def register_autograd(
        self, backward: Callable, /, *, setup_context: Callable | None = None
    ) -> None:
        """The gradient: backward(ctx, *grads), and setup_context(ctx, inputs, output) before it."""
        run = self._run

        def forward(*args):
            return run(*args)

        def set_up(ctx, inputs, output):
            if setup_context is not None:
                setup_context(ctx, inputs, output)

        body = {"forward": staticmethod(forward), "setup_context": staticmethod(set_up)}
        body["backward"] = staticmethod(backward)
        self._function_class = type(self._qualname.replace("::", "_"), (Function,), body)  # type: ignore[assignment]


class _OwnOp(CustomOpDef):
    """An operator of another package that Rushlight has its own for. It knows its gradient, its
    shapes and what autocast does: what the package registers belongs to its code in C++."""

    def register_kernel(self, device_types, fn=None, /):
        return (lambda function: function) if fn is None else fn

    def register_fake(self, fn=None, /):
        return (lambda function: function) if fn is None else fn

    def register_autograd(self, backward, /, *, setup_context=None):
        pass

    def _implement(self, function):
        pass


def custom_op(
    name: str,
    fn: Callable | None = None,
    /,
    *,
    mutates_args: str | Iterable[str] = (),
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Any = None,
) -> Callable:
    """Makes an operator of a function: `@custom_op("mylib::name", mutates_args=())`."""

    def make(function):
        op = CustomOpDef(name, function, mutates_args)
        _registered[name] = op
        return op

    return make if fn is None else make(fn)


triton_op = custom_op


def wrap_triton(triton_kernel: _F, /) -> _F:
    """The kernel itself."""
    return triton_kernel


def _own(name):
    """An operator of a package's C++ library that Rushlight has its own for, or None."""
    from rushlight._extensions import own_operator

    function = own_operator(name)
    if function is not None:
        _registered[name] = _OwnOp(name, function)
    return _registered.get(name)


def _find(op):
    if isinstance(op, CustomOpDef):
        return op
    name = str(op)
    if name not in _registered and _own(name) is None:
        _registered[name] = CustomOpDef(name, not_available(f"ops.{name}", "it has no kernel yet"))
    return _registered[name]


def register_kernel(
    op: Any,
    device_types: str | Sequence[str] | None,
    func: Callable | None = None,
    /,
    *,
    lib: Library | None = None,
) -> Callable:
    """The operator's function for some kinds of device."""
    return _find(op).register_kernel(device_types, func)


def register_fake(
    op: Any,
    func: Callable | None = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = False,
) -> Callable:
    """The function that gives the operator's shapes only."""
    return _find(op).register_fake(func)


impl_abstract = register_fake


def register_autograd(
    op: Any, backward: Callable, /, *, setup_context: Callable | None = None, lib: Any = None
) -> None:
    """The operator's gradient."""
    _find(op).register_autograd(backward, setup_context=setup_context)


def register_autocast(
    op: Any, device_type: str, cast_inputs: _dtype, /, *, lib: Library | None = None
) -> None:
    """Not needed: the operator's function sees what it is given."""


def register_vmap(op: Any, func: Callable | None = None, /, *, lib: Any = None) -> Callable:
    """Kept out of use: vmap runs the function sample by sample."""
    return _find(op).register_vmap(func)


def define(
    qualname: Any, schema: str | Callable | None = None, *, lib: Any = None,
    tags: tuple[Any, ...] = (),
) -> Callable:  # fmt: skip
    """Names an operator; its function comes with impl. Usable as a decorator."""
    if callable(schema):
        return custom_op(qualname, schema)
    _find(qualname)
    return lambda function: impl(qualname, "cpu", function)


def impl(
    qualname: str,
    types: str | Sequence[str] = "cpu",
    func: Callable[..., Any] | None = None,
    *,
    lib: Library | None = None,
) -> Callable:
    """The function of an operator that define named."""

    def register(function):
        _find(qualname)._implement(function)
        return function

    return register if func is None else register(func)


def get_ctx() -> NoReturn:
    """What register_fake's functions ask for sizes that depend on data."""
    raise NotImplementedError("library.get_ctx: shapes that depend on data cannot be told ahead")


def fallthrough_kernel() -> NoReturn:
    """A kernel that leaves the work to the next one."""
    raise NotImplementedError("library.fallthrough_kernel: operators have one kernel per device")


class Library:
    """A namespace of operators: define(schema), impl(name, function)."""

    def __init__(self, ns: Any, kind: Any, dispatch_key: str = "") -> None:
        self.ns, self.kind = ns, kind

    def define(self, schema: str, alias_analysis: str = "", *, tags: tuple[Any, ...] = ()) -> str:
        """Names an operator by its schema; returns the name."""
        name = schema.partition("(")[0].strip()
        _find(f"{self.ns}::{name}")
        return name

    def impl(
        self,
        op_name: Any,
        fn: Callable[..., Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:
        """The function of an operator."""
        name = op_name._qualname if isinstance(op_name, CustomOpDef) else str(op_name)
        name = name if "::" in name else f"{self.ns}::{name}"
        if "Meta" in dispatch_key:
            _find(name).register_fake(fn)
        else:
            impl(name, func=fn)

    def _destroy(self):
        for name in [n for n in _registered if n.startswith(f"{self.ns}::")]:
            del _registered[name]


fill(globals())
