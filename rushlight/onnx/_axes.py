"""Dims whose sizes may change: which were asked for, and inputs to try them with."""

from __future__ import annotations

import warnings
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.utils import _pytree


def axes_of(
    names: list[str], out_names: list[str], dynamic_axes: Any, dynamic_shapes: Any,
    parameters: list[str],
) -> dict[str, dict[int, str]]:  # fmt: skip
    """{input or output: {dim: its name}}"""
    found: dict[str, dict[int, str]] = {}
    if dynamic_shapes is not None:
        rows = dynamic_shapes
        if isinstance(rows, dict):
            known = dict(zip(parameters, names, strict=False))
            rows = {known.get(key, key): value for key, value in rows.items()}
        else:
            rows = dict(zip(names, rows, strict=False))
        dynamic_axes = {**rows, **(dynamic_axes or {})}
    for key, value in (dynamic_axes or {}).items():
        if key not in names and key not in out_names:
            warnings.warn(
                f"onnx.export: '{key}' in dynamic_axes is neither an input ({names}) nor an output "
                f"({out_names})",
                stacklevel=4,
            )
            continue
        if value is None:
            continue
        if isinstance(value, dict):
            items = value.items()
        elif all(isinstance(v, int) for v in value):  # dims without names
            items = [(dim, f"{key}_dynamic_axes_{i + 1}") for i, dim in enumerate(value)]
        else:  # one entry per dim
            items = enumerate(value)
        found[key] = {dim: _axis_name(name, key, dim) for dim, name in items if name is not None}
    return found


def _axis_name(name: Any, key: str, dim: int) -> str:
    if isinstance(name, str):
        return name
    own = getattr(name, "__name__", None)
    return own if isinstance(own, str) else f"{key}_dim_{dim}"


def grown(tensor: Tensor, by: dict[int, int]) -> Tensor:
    """A tensor that repeats its elements to be longer in some dims."""
    for dim, step in by.items():
        size = tensor.shape[dim]
        index = [i % size for i in range(size + step)]
        tensor = tensor.index_select(dim, _C.tensor(index, device=tensor.device))
    return tensor


def close(found: Any, expected: Any) -> bool:
    a, b = _pytree.tree_leaves(found), _pytree.tree_leaves(expected)
    if len(a) != len(b):
        return False
    return all(
        x.shape == y.shape and bool(_C.allclose(x.double(), y.double(), 1e-4, 1e-5, equal_nan=True))
        for x, y in zip(a, b, strict=True)
    )
