"""Methods of Tensor that are written in Python, by topic."""

from __future__ import annotations

from typing import Any

from rushlight._C import Tensor


def method(function):
    """Makes a function a method of Tensor."""
    setattr(Tensor, function.__name__, function)
    return function


def methods_of(module, names, told_by="rushlight"):
    """Makes functions of a module, which is imported when one of them is called, methods: a dict
    has their docstrings, else they are those of another module's functions."""
    told = names if isinstance(names, dict) else {}
    for name in told or names.split():
        setattr(Tensor, name, _calling(module, name, told.get(name, f"See {told_by}.{name}.")))


def _calling(module, name, doc):
    def run(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        import importlib

        return getattr(importlib.import_module(module), name)(self, *args, **kwargs)

    run.__name__ = name
    run.__qualname__ = f"Tensor.{name}"
    run.__doc__ = doc
    run.calls = module, name  # for who needs the function itself
    return run


# These import names from above.
from rushlight._tensor import attributes, composites, layouts, memory  # noqa: E402, F401
from rushlight._tensor.copying import _rebuild_from_type_v2 as _rebuild_from_type_v2  # noqa: E402
