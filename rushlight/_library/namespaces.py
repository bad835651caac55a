"""Library: operators defined by their schemas, and functions registered for them by name."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from rushlight import _C
from rushlight._library.operators import OpOverload, OpOverloadPacket, find_overload, forget

_KINDS = ("DEF", "IMPL", "FRAGMENT")
_RESERVED = ("aten", "prim")
_OURS = (
    "CPU CUDA Meta CompositeExplicitAutograd CompositeExplicitAutogradNonFunctional "
    "CompositeImplicitAutograd Autograd AutogradCPU AutogradCUDA"
).split()
# Devices that Rushlight has not: their functions are never called.
_OTHER_DEVICES = (
    "XPU HPU MPS XLA IPU HIP VE MTIA Lazy FPGA MAIA Vulkan Metal PrivateUse1 PrivateUse2 "
    "PrivateUse3 QuantizedCPU QuantizedCUDA SparseCPU SparseCUDA MkldnnCPU NestedTensorCPU "
    "NestedTensorCUDA AutogradXPU AutogradMPS AutogradHPU AutogradXLA AutogradPrivateUse1"
).split()
# Steps of PyTorch's dispatcher that are none of Rushlight's.
_OTHER_STEPS = (
    "ADInplaceOrView AutocastCPU AutocastCUDA AutogradOther BackendSelect Functionalize "
    "FuncTorchBatched FuncTorchVmapMode Named Python PythonTLSSnapshot PreDispatch Tracer "
    "Conjugate Negative ZeroTensor"
).split()

_defining: set[str] = set()  # namespaces with a DEF library
# "ns::name" -> what to do when the operator is defined: a package may register for operators of a
# library that comes later.
_waiting: dict[str, list[Callable[[Any], None]]] = {}


def fallthrough_kernel() -> NoReturn:
    """A mark for Library.impl: this key has no function, and the next one is asked.

    Raises:
        NotImplementedError: where it is called.

    Example:
        >>> lib = rl.library.Library("doc_fallthrough", "FRAGMENT")
        >>> lib.define("plus(Tensor x) -> Tensor")
        'plus'
        >>> lib.impl("plus", lambda x: x + 1, "CPU")
        >>> lib.impl("plus", rl.library.fallthrough_kernel, "Autograd")
        >>> rl.ops.doc_fallthrough.plus(rl.tensor([1.0]))
        tensor([2.])
    """
    raise NotImplementedError("fallthrough_kernel is a mark for Library.impl, not a function")


def when_defined(qualname: str, act: Callable[[Any], None]) -> None:
    """Calls act with the operator, now or as soon as it is defined."""
    found = find_overload(qualname)
    if found is not None:
        act(found._op)
    else:
        _waiting.setdefault(qualname, []).append(act)


def run_waiting() -> None:
    """For operators that came without a word, from a library in C++."""
    for qualname in list(_waiting):
        found = find_overload(qualname)
        if found is not None:
            for act in _waiting.pop(qualname):
                act(found._op)


def check_key(key: str, function: Any) -> bool:
    """Whether functions for this dispatch key are ever called; raises for keys that have no
    counterpart, and for what is no key."""
    if key in _OURS:
        if function is fallthrough_kernel and not key.startswith("Autograd"):
            raise NotImplementedError(
                f"Library.impl: fallthrough_kernel for {key}: an operator has one function per "
                "device, and there is none to fall through to"
            )
        return function is not fallthrough_kernel
    if key in _OTHER_DEVICES:
        return False
    if key in _OTHER_STEPS:
        if function is fallthrough_kernel:
            return False
        raise NotImplementedError(
            f"Library.impl: calls do not pass a step {key}; use register_autograd, "
            "register_autocast or register_vmap"
        )
    raise RuntimeError(f"could not parse dispatch key: {key}")


class Library:
    """A namespace of operators: `Library("mylib", "DEF")`, then define(schema) and impl(name,
    function, key). What it defined goes when the library does.

    Arguments:
        ns: the namespace.
        kind: "DEF" to define its operators (one such library per namespace), "FRAGMENT" to add
            some, "IMPL" to add functions only.
        dispatch_key: the key for functions that `impl` is given without one.

    Example:
        >>> lib = rl.library.Library("doc_library", "FRAGMENT", "CPU")
        >>> lib.define("plus(Tensor x) -> Tensor")
        'plus'
        >>> lib.impl("plus", lambda x: x + 1)
        >>> rl.ops.doc_library.plus(rl.tensor([1.0]))
        tensor([2.])
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in _KINDS:
            raise ValueError(f"Unsupported kind: {kind}")
        if kind == "DEF" and (ns in _defining or ns in _RESERVED):
            raise RuntimeError(
                f"Only a single library can define the namespace {ns}; use "
                f'Library("{ns}", "FRAGMENT") to add operators to it, or "IMPL" to add functions'
            )
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._op_defs: set[str] = set()
        if kind == "DEF":
            _defining.add(ns)
        self._finalizer = weakref.finalize(self, _take_away, ns, kind, self._op_defs)
        self._finalizer.atexit = False

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Names an operator by its schema, `name(Tensor x) -> Tensor`; returns the name."""
        if self.kind == "IMPL":
            raise RuntimeError(
                "Library.define: this library was made with 'IMPL'; use 'DEF' or 'FRAGMENT'"
            )
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        op = _C._define_custom_op(f"{self.ns}::{schema.strip()}")
        name = f"{op.qualified}.{op.overload}" if op.overload else op.qualified
        self._op_defs.add(op.qualified)
        for act in _waiting.pop(name, ()):
            act(op)
        return op.qualified.partition("::")[2]

    def impl(
        self,
        op_name: Any,
        fn: Callable[..., Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:
        """The function of an operator under a dispatch key: "CPU", "CUDA", "Meta", "Autograd",
        "CompositeExplicitAutograd", or by default "CompositeImplicitAutograd"."""
        if not callable(fn):
            raise TypeError(f"Library.impl: expected a function, got a {type(fn).__name__}")
        if with_keyset:
            raise NotImplementedError("Library.impl: there are no key sets to hand over")
        name = name_of(op_name)
        name = name if "::" in name else f"{self.ns}::{name}"
        if name.partition("::")[0] != self.ns:
            raise RuntimeError(f"Library.impl: {name} is no operator of the namespace {self.ns}")
        if is_own(name):
            return
        if self.ns in _RESERVED:
            raise NotImplementedError(
                f"Library.impl: {name} is an operator of the package, whose function cannot be "
                "replaced; define one of your own"
            )
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        if check_key(key, fn):
            when_defined(name, lambda op: op.set_kernel(key, fn, False))

    def _destroy(self) -> None:
        self._finalizer()


def _take_away(namespace, kind, names):
    for name in names:
        forget(name)
    names.clear()
    if kind == "DEF":
        _defining.discard(namespace)


@contextlib.contextmanager
def scoped_library(*args: Any, **kwargs: Any) -> Iterator[Library]:
    """A library for a with block."""
    library = Library(*args, **kwargs)
    try:
        yield library
    finally:
        library._destroy()


def name_of(op: Any) -> str:
    """ "ns::name" of whatever stands for an operator."""
    if isinstance(op, OpOverload):
        return op.name()
    if isinstance(op, OpOverloadPacket):
        return op._qualified_op_name
    found = getattr(op, "_qualname", None)
    if found is not None:
        return found
    if not isinstance(op, str):
        raise ValueError(f"an operator is a name, an OpOverload or a custom_op, not {type(op)}")
    return op.removesuffix(".default")


# Operators of other packages that Rushlight has its own for ------------------------------------


class OwnOp:
    """An operator of another package that Rushlight has its own for. It knows its gradient, its
    shapes and what autocast does: what the package registers belongs to its code in C++."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._qualname, self._function = name, function
        self.__name__ = name.partition("::")[2]

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    @property
    def default(self) -> OwnOp:
        """Its only overload."""
        return self

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self._qualname.replace('::', '.')}')>"


_own: dict[str, OwnOp] = {}


def own_operator(qualname: str) -> OwnOp | None:
    """What Rushlight has for an operator of another package's C++ library, or None."""
    from rushlight import _extensions

    if qualname not in _own:
        function = _extensions.own_operator(qualname)
        if function is None:
            return None
        _own[qualname] = OwnOp(qualname, function)
    return _own[qualname]


def is_own(qualname: str) -> bool:
    """Whether it is one of those."""
    return find_overload(qualname) is None and own_operator(qualname) is not None
