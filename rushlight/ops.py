"""Operators by namespace, as `torch.ops.mylib.myop`: those registered with rushlight.library, and
under `aten` those of the package."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from rushlight._names.lazy_table import MODULE_OF
from rushlight._names.missing import not_available
from rushlight.types import FileLike, Self


class LibraryError(OSError, NotImplementedError):
    """A library that cannot be loaded; packages that can do without catch OSError."""


class _Namespace:
    """The operators of one library."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __dir__(self) -> list[str]:
        from rushlight import _C

        names = (n.partition("::") for n in _C._custom_op_names())
        return sorted(name for namespace, _, name in names if namespace == self._name)

    def __repr__(self) -> str:
        return f"<module 'rushlight.ops.{self._name}'>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        from rushlight._library.namespaces import own_operator
        from rushlight._library.operators import find_packet

        qualname = f"{self._name}::{name}"
        found: Any = find_packet(qualname)
        if found is None and self._name == "aten":
            found = _of_the_package(name)
        if found is None:
            found = own_operator(qualname)
        if found is None:
            from rushlight._extensions import MissingOperatorError

            raise MissingOperatorError(self._name, name)
        return found


class _Overloads:
    """An operator of the package; its overloads (`.default`, `.Tensor`) are all itself."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.__name__, self._function = name, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __getattr__(self, name: str) -> Self:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def name(self) -> str:
        """ "aten::mm"."""
        return f"aten::{self.__name__}"

    @property
    def namespace(self) -> str:
        """The namespace of the package's own operators."""
        return "aten"

    def __str__(self) -> str:
        return f"aten.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='aten.{self.__name__}')>"


def _table_op(name, public):
    """The operator as the table has it; what only the public function takes goes there."""
    from rushlight import _C

    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return _C._call_table_op(name, *args, **kwargs)
        except _C.ArgumentTypeError:
            if public is None:
                raise
        return public(*args, **kwargs)

    return run


@functools.cache
def _of_the_package(name):
    import rushlight
    from rushlight.nn import functional

    found = (
        vars(rushlight).get(name) or vars(functional).get(name) or getattr(rushlight._C, name, None)
    )
    if found is None and name in MODULE_OF:  # a function that loads when it is first asked for
        found = getattr(rushlight, name)
    method = getattr(rushlight.Tensor, name, None)
    if rushlight._C._is_table_op(name) and not name.startswith("__"):
        return _Overloads(name, _table_op(name, found or method))
    if found is None and method is None:
        found = not_available(f"ops.aten.{name}", "Rushlight has no operator of this name")
    return _Overloads(name, found or method)


class _Ops(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        namespace = _Namespace(name)
        setattr(self, name, namespace)
        return namespace

    def load_library(self, path: FileLike) -> None:
        """Loads a shared library. One that is built for PyTorch is set aside, so that the package
        that asks for it can be imported: its operators are not there, unless Rushlight has them."""
        from rushlight import _extensions

        name = os.fspath(path)
        try:
            if _extensions.needs_pytorch(name):
                if name not in _extensions.set_aside:
                    _extensions.set_aside.append(name)
                return
            import ctypes

            from rushlight import _C

            ctypes.CDLL(name)
            errors = _C._take_library_errors()
            if errors:
                raise RuntimeError(f"ops.load_library: {name}: operators failed:\n{errors}")
            from rushlight._library.namespaces import run_waiting

            run_waiting()
        except OSError as error:
            raise LibraryError(f"ops.load_library: {name} cannot be loaded: {error}") from error
        loaded_libraries.add(name)


loaded_libraries: set[str] = set()
sys.modules[__name__].__class__ = _Ops
