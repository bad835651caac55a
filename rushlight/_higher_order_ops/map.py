"""A function applied to each slice."""

import rushlight
from rushlight.utils import _pytree as pytree

__all__ = ["map"]


def map(f, xs, *args):
    """f(x, *args) for each x along the first dimension of xs, stacked."""
    leaves, spec = pytree.tree_flatten(xs)
    if not leaves or any(leaf.dim() == 0 for leaf in leaves):
        raise ValueError("map: xs must be tensors with at least one dimension")
    count = leaves[0].shape[0]
    if count == 0 or any(leaf.shape[0] != count for leaf in leaves):
        raise ValueError(
            f"map: first dimensions must be equal and not 0, got {[tuple(x.shape) for x in leaves]}"
        )
    results = [f(pytree.tree_unflatten([x[i] for x in leaves], spec), *args) for i in range(count)]
    return pytree.tree_map(lambda *parts: rushlight.stack(parts), *results)
