"""Gradients of sparse and nested tensors: those of the values, which are what the graph has."""

from __future__ import annotations

from typing import Any

from rushlight.nested._tensor import NestedTensor, contiguous, values_like
from rushlight.nested._tensor import with_values as nested_like
from rushlight.sparse._convert import to_dense
from rushlight.sparse._tensor import SparseTensor, values_at
from rushlight.sparse._tensor import with_values as sparse_like


def _of_values(x):
    return isinstance(x, (SparseTensor, NestedTensor))


def _like(x, values):
    return sparse_like(x, values) if isinstance(x, SparseTensor) else nested_like(x, values)


def _values(x, given):
    return values_at(x, given) if isinstance(x, SparseTensor) else values_like("grad", x, given)


def _plain(x):
    """An output as a tensor that the graph has."""
    if isinstance(x, NestedTensor):
        return contiguous(x)._vals
    return to_dense(x) if isinstance(x, SparseTensor) else x


def as_values(tensors: Any, grads: Any) -> tuple[Any, Any]:
    """Tensors as the engine takes them, and their gradients."""
    found = [t._vals if _of_values(t) else t for t in tensors]
    if grads is not None:
        grads = [
            _values(t, g) if _of_values(t) and g is not None else g
            for t, g in zip(tensors, grads, strict=True)
        ]
    return found, grads


def like_inputs(tensors: Any, grads: Any) -> tuple[Any, ...]:
    """What the engine found, sparse or nested as those tensors that are."""
    return tuple(
        _like(t, g) if _of_values(t) and g is not None else g
        for t, g in zip(tensors, grads, strict=True)
    )


def through_values(function: Any, inputs: Any) -> tuple[Any, Any]:
    """A function of the values of those inputs that have them and need a gradient; where it gives
    such tensors, of plain outputs."""
    own = {i: x for i, x in enumerate(inputs) if _of_values(x) and x.requires_grad}

    def of_values(*given):
        found = function(*(_like(own[i], v) if i in own else v for i, v in enumerate(given)))
        if isinstance(found, tuple | list):
            return tuple(_plain(y) for y in found)
        return _plain(found)

    return of_values, tuple(own[i]._vals if i in own else x for i, x in enumerate(inputs))
