"""State dicts as flat dicts, with names that are paths, and back."""

from __future__ import annotations

from typing import Any

from rushlight._names.missing import fill
from rushlight.distributed.checkpoint._traverse import OBJ_PATH, set_element, traverse_state_dict

FLATTEN_MAPPING = dict[str, OBJ_PATH]


def flatten_state_dict(
    state_dict: dict[str, Any], _as_before_2_4: bool = False
) -> tuple[dict[str, Any], FLATTEN_MAPPING]:
    """The leaves by names such as "optim.state.weight.step", and the path of each name. Before
    PyTorch 2.4, a dict without tensors was one value.

    Example:
        >>> from rushlight.distributed.checkpoint._nested_dict import flatten_state_dict
        >>> flatten_state_dict({"a": {"b": 1}})
        ({'a.b': 1}, {'a.b': ('a', 'b')})
    """
    flat: dict[str, Any] = {}
    paths: FLATTEN_MAPPING = {}

    def add(path: OBJ_PATH, value: Any) -> None:
        name = ".".join(map(str, path))
        if name in flat:
            raise ValueError(f"flatten_state_dict: two values have the name {name!r}")
        flat[name], paths[name] = value, path

    traverse_state_dict(state_dict, add, _dicts_may_be_leaves=_as_before_2_4)
    return flat, paths


def unflatten_state_dict(state_dict: dict[str, Any], mapping: FLATTEN_MAPPING) -> dict[str, Any]:
    """The nested dict again.

    Example:
        >>> from rushlight.distributed.checkpoint._nested_dict import unflatten_state_dict
        >>> unflatten_state_dict({"a.b": 1}, {"a.b": ("a", "b")})
        {'a': {'b': 1}}
    """
    nested: dict[str, Any] = {}
    for name, value in state_dict.items():
        set_element(nested, mapping[name], value)
    return nested


fill(globals())
