"""The values of nested dicts and lists, and their paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rushlight._C import Tensor
from rushlight._names.missing import fill

__all__ = ["get_element", "set_element", "traverse_state_dict"]

PATH_ITEM = str | int
OBJ_PATH = tuple[PATH_ITEM, ...]
STATE_DICT_ITEM = object


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def _is_leaf(value: Any, opens: Callable[[Any], bool], dicts_may_be: bool) -> bool:
    """A list is one value unless it holds a dict or a tensor, at any depth."""
    if isinstance(value, Mapping):
        if not dicts_may_be:
            return False
        value = list(value.values())
    if not isinstance(value, list):
        return True
    return all(
        not opens(v) and (not isinstance(v, (Mapping, list)) or _is_leaf(v, opens, dicts_may_be))
        for v in value
    )


def traverse_state_dict(
    state_dict: dict[str, Any],
    visitor: Callable[[OBJ_PATH, Any], None],
    keep_traversing: Callable[[Any], bool] = _is_tensor,
    _dicts_may_be_leaves: bool = False,
) -> None:
    """Calls ``visitor`` with the path and the value of each leaf. Dicts are opened, lists only if
    there is a dict or a tensor in them, tuples never. Keys of dicts are str in paths, places in
    lists int.

    Example:
        >>> from rushlight.distributed.checkpoint._traverse import traverse_state_dict
        >>> traverse_state_dict({"a": {"b": 1}, "c": [1, 2]}, print)
        ('a', 'b') 1
        ('c',) [1, 2]
    """
    todo: list[tuple[OBJ_PATH, Any]] = [((str(k),), v) for k, v in reversed(state_dict.items())]
    while todo:
        path, value = todo.pop()
        if _is_leaf(value, keep_traversing, _dicts_may_be_leaves):
            visitor(path, value)
        elif isinstance(value, Mapping):
            todo += [((*path, str(k)), v) for k, v in reversed(list(value.items()))]
        else:
            todo += [((*path, i), value[i]) for i in reversed(range(len(value)))]


def _own_key(container: Any, key: PATH_ITEM) -> Any:
    """A path has the text of a key: the key itself, where the dict has one that reads so."""
    if not isinstance(container, Mapping) or key in container:
        return key
    return next((k for k in container if not isinstance(k, str) and str(k) == key), key)


def set_element(root_dict: dict[str, Any], path: OBJ_PATH, value: Any) -> None:
    """Puts a value at a path; dicts and lists on the way are made.

    Example:
        >>> from rushlight.distributed.checkpoint._traverse import set_element
        >>> made = {}
        >>> set_element(made, ("a", 1, "b"), 5)
        >>> made
        {'a': [None, {'b': 5}]}
    """
    container: Any = root_dict
    for i, key in enumerate(path):
        key = _own_key(container, key)
        if isinstance(container, list):
            container.extend([None] * (int(key) + 1 - len(container)))
            there = container[int(key)] is not None
        else:
            there = key in container
        if i == len(path) - 1:
            container[key] = value
            return
        if not there:
            container[key] = {} if isinstance(path[i + 1], str) else []
        container = container[key]


def get_element(root_dict: dict[str, Any], path: OBJ_PATH, default_value: Any = None) -> Any:
    """What is at a path, or the default.

    Example:
        >>> from rushlight.distributed.checkpoint._traverse import get_element
        >>> get_element({"a": [1, 2]}, ("a", 1))
        2
    """
    found: Any = root_dict
    for key in path:
        key = _own_key(found, key)
        if isinstance(key, int) and isinstance(found, list) and 0 <= key < len(found):
            found = found[key]
        elif isinstance(found, Mapping) and key in found:
            found = found[key]
        else:
            return default_value
    return found


fill(globals())
