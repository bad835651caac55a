"""A state carried along a dimension."""

import rushlight
from rushlight.utils import _pytree as pytree

__all__ = ["scan"]


def scan(combine_fn, init, xs, *, dim=0, reverse=False):
    """(carry, ys) of carry, y = combine_fn(carry, x) for each x along dim; ys are stacked first."""
    leaves, spec = pytree.tree_flatten(xs)
    if not leaves:
        return init, []
    dims = [dim % leaf.dim() for leaf in leaves]
    count = leaves[0].shape[dims[0]]
    if any(leaf.shape[d] != count for leaf, d in zip(leaves, dims, strict=True)):
        raise ValueError(
            f"scan: xs must have equal sizes along dim {dim}, got "
            f"{[tuple(x.shape) for x in leaves]}"
        )
    order = range(count - 1, -1, -1) if reverse else range(count)
    carry, ys = init, []
    for i in order:
        x = [leaf.select(d, i) for leaf, d in zip(leaves, dims, strict=True)]
        carry, y = combine_fn(carry, pytree.tree_unflatten(x, spec))
        ys.append(y)
    if reverse:
        ys.reverse()
    if not ys:
        raise ValueError("scan: xs must not be empty")
    return carry, pytree.tree_map(lambda *parts: rushlight.stack(parts), *ys)
