"""Operators that are given functions."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from rushlight import _C

_R = TypeVar("_R")  # what it returns


class HigherOrderOperator(abc.ABC, Generic[_R]):
    """The base of operators whose arguments are functions. A subclass has a `__call__` that checks
    its arguments and calls that of this class; what it does is registered with `py_impl`.

    Everything runs eagerly and gradients are those of the operators inside, so of the keys that
    PyTorch dispatches by, the body for `CompositeExplicitAutograd` (or of a device) is what runs.
    """

    def __init__(self, name: str, *, cacheable: bool = False) -> None:
        self._name = self.__name__ = name
        self.namespace, self.cacheable = "higher_order", cacheable
        self._bodies: dict[str, Callable[..., Any]] = {}

    def name(self) -> str:
        """What it was made with."""
        return self._name

    def py_impl(self, key: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """A decorator: the body for a dispatch key."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self._bodies[str(key).rpartition(".")[2]] = function
            return function

        return register

    def py_autograd_impl(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A decorator: the body where gradients may be asked for, before all others."""
        return self.py_impl("Autograd")(function)

    def fallthrough(self, key: Any) -> None:
        """Nothing is done for this key; the body of another one runs."""
        self._bodies.pop(str(key).rpartition(".")[2], None)

    @abc.abstractmethod
    def __call__(self, /, *args: Any, **kwargs: Any) -> _R:
        if _C._is_overridden(args, kwargs):
            return _C._ask_overrides(self, args, kwargs)
        device = "CUDA" if any(getattr(a, "is_cuda", False) for a in args) else "CPU"
        for key in ("Autograd", f"Autograd{device}", device, "CompositeExplicitAutograd"):
            if key in self._bodies:
                return self._bodies[key](*args, **kwargs)
        raise NotImplementedError(
            f"{self._name}: it has no body for tensors of the {device}; register one with "
            "py_impl(DispatchKey.CompositeExplicitAutograd)"
        )

    def __str__(self) -> str:
        return self._name
