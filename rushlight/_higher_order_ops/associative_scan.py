"""Running totals of any associative function."""

import rushlight
from rushlight.utils import _pytree as pytree

__all__ = ["associative_scan"]


def _totals(combine, xs):
    """Running totals along the first dimension: pairs are combined, their totals give every second
    one, and those the others; about 2 n calls on elements in 2 log n steps."""
    n = xs[0].shape[0]
    if n < 2:
        return xs
    pairs = combine([x[: n - n % 2 : 2] for x in xs], [x[1::2] for x in xs])
    odd = _totals(combine, pairs)
    first = [x[:1] for x in xs]
    if n == 2:
        return [rushlight.cat(parts) for parts in zip(first, odd, strict=True)]
    before = [y[: (n - 1) // 2] for y in odd]
    rest = combine(before, [x[2::2] for x in xs])
    even = [rushlight.cat(parts) for parts in zip(first, rest, strict=True)]
    results = []
    for e, o in zip(even, odd, strict=True):
        both = rushlight.stack([e[: o.shape[0]], o], 1).flatten(0, 1)
        results.append(both if n % 2 == 0 else rushlight.cat([both, e[-1:]]))
    return results


def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    """combine_fn(...combine_fn(x0, x1)..., xi) for every i along dim; combine_fn is associative.

    "pointwise": combine_fn works element by element. "generic": it gets single slices (by vmap).
    """
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(
            f"associative_scan: combine_mode must be 'pointwise' or 'generic', got {combine_mode!r}"
        )
    leaves, spec = pytree.tree_flatten(xs)
    if not leaves or not all(isinstance(leaf, rushlight.Tensor) for leaf in leaves):
        raise RuntimeError("associative_scan: xs must be tensors")
    count = leaves[0].shape[dim]
    if count == 0 or any(leaf.shape[dim] != count for leaf in leaves):
        raise ValueError(
            f"associative_scan: sizes along dim {dim} must be equal and not 0, got "
            f"{[tuple(x.shape) for x in leaves]}"
        )
    function = combine_fn if combine_mode == "pointwise" else rushlight.vmap(combine_fn)

    def combine(a, b):
        out = function(pytree.tree_unflatten(a, spec), pytree.tree_unflatten(b, spec))
        found = pytree.tree_leaves(out)
        if len(found) != len(leaves):
            raise RuntimeError(
                f"associative_scan: combine_fn must return as many tensors as it takes, "
                f"{len(leaves)}, got {len(found)}"
            )
        return found

    moved = [leaf.movedim(dim, 0) for leaf in leaves]
    if reverse:
        moved = [x.flip(0) for x in moved]
    totals = _totals(combine, moved)
    if reverse:
        totals = [x.flip(0) for x in totals]
    return pytree.tree_unflatten([x.movedim(0, dim) for x in totals], spec)
