"""Parameters that another distribution, which a distribution is made of, has."""

from __future__ import annotations

from typing import Any, overload

from rushlight._C import Tensor
from rushlight.types import Self


class Delegated:
    """An attribute of the same name of `self.<whose>`; it is only read."""

    def __init__(self, whose: str) -> None:
        self._whose = whose

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        self.__doc__ = f"{name} of {self._whose}."

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Tensor: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else getattr(getattr(instance, self._whose), self._name)

    def __set__(self, instance: Any, value: Any) -> None:
        raise AttributeError(f"{type(instance).__name__}: {self._name} cannot be set")
