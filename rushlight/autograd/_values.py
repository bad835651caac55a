"""Gradients of sparse and nested tensors: those of the values, which are what the graph has."""

from __future__ import annotations

from typing import Any

from rushlight._tensor.of_values import TensorOfValues


def _plain(x):
    """An output as a tensor that the graph has."""
    return x._plain() if isinstance(x, TensorOfValues) else x


def as_values(tensors: Any, grads: Any) -> tuple[Any, Any]:
    """Tensors as the engine takes them, and their gradients."""
    found = [t._vals if isinstance(t, TensorOfValues) else t for t in tensors]
    if grads is not None:
        grads = [
            t._values_at("grad", g) if isinstance(t, TensorOfValues) and g is not None else g
            for t, g in zip(tensors, grads, strict=True)
        ]
    return found, grads


def like_inputs(tensors: Any, grads: Any) -> tuple[Any, ...]:
    """What the engine found, sparse or nested as those tensors that are."""
    return tuple(
        t._like(g) if isinstance(t, TensorOfValues) and g is not None else g
        for t, g in zip(tensors, grads, strict=True)
    )


def through_values(function: Any, inputs: Any) -> tuple[Any, Any]:
    """A function of the values of those inputs that have them and need a gradient; where it gives
    such tensors, of plain outputs."""
    own = {i: x for i, x in enumerate(inputs) if isinstance(x, TensorOfValues) and x.requires_grad}

    def of_values(*given):
        found = function(*(own[i]._like(v) if i in own else v for i, v in enumerate(given)))
        if isinstance(found, tuple | list):
            return tuple(_plain(y) for y in found)
        return _plain(found)

    return of_values, tuple(own[i]._vals if i in own else x for i, x in enumerate(inputs))
