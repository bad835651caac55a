"""Lists and dicts that refuse to change: what nodes keep as arguments.

A node knows its users, so its arguments may only change through the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeVar

from rushlight.utils import _pytree

__all__ = ["immutable_dict", "immutable_list"]

_C = TypeVar("_C", bound=type)


def _refusing(*names: str) -> Callable[[_C], _C]:
    """Replaces the methods that would change an object."""

    def refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__}: the arguments of a node are not changed in place; change a "
            "copy and assign it: node.args = tuple(changed)"
        )

    def decorate(cls: _C) -> _C:
        for name in names:
            setattr(cls, name, refuse)
        return cls

    return decorate


@_refusing("__delitem__", "__iadd__", "__imul__", "__setitem__", "append", "clear", "extend",
           "insert", "pop", "remove", "reverse", "sort")  # fmt: skip
class immutable_list(list):
    """A list that cannot be changed, and so can be hashed."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(self),)

    def __copy__(self) -> immutable_list:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> immutable_list:
        import copy

        return type(self)(copy.deepcopy(item, memo) for item in self)


@_refusing("__delitem__", "__ior__", "__setitem__", "clear", "pop", "popitem", "setdefault",
           "update")  # fmt: skip
class immutable_dict(dict):
    """A dict that cannot be changed, and so can be hashed."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(self.items()),)

    def __copy__(self) -> immutable_dict:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> immutable_dict:
        import copy

        return type(self)((key, copy.deepcopy(item, memo)) for key, item in self.items())


def _children(values: Iterable[Any]) -> tuple[list[Any], None]:
    return list(values), None


_pytree.register_pytree_node(
    immutable_list, _children, lambda children, _: immutable_list(children)
)
_pytree.register_pytree_node(
    immutable_dict,
    lambda d: (list(d.values()), list(d)),
    lambda children, keys: immutable_dict(zip(keys, children, strict=True)),
)
