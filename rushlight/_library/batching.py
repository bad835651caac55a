"""register_vmap's functions as the core calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class VmapInfo(NamedTuple):
    """What a rule is told about the vmap that it runs in."""

    batch_size: int
    randomness: str


def batch_rule(op: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """(samples, in_dims, args, kwargs) -> (results, out_dims); samples come first, or nowhere."""
    positional = [a[0] for a in op.arguments if not a[2]]
    name = op.qualified
    several = len(op.results) > 1

    def run(samples, in_dims, args, kwargs):
        if any(dim >= 0 for dim in in_dims[len(positional) :]):
            raise NotImplementedError(
                f"{name}: a keyword-only argument has samples; its rule for vmap is told of the "
                "positional ones only"
            )
        dims = tuple(_shown(dim, a) for dim, a in zip(in_dims, args, strict=False))
        returned = function(VmapInfo(samples, "error"), dims, *args, **(kwargs or {}))
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise RuntimeError(f"{name}: a rule for vmap must return (output, out_dims)")
        output, out_dims = returned
        if not op.results:
            return None, ()
        outputs = tuple(output) if several else (output,)
        if several and not isinstance(out_dims, (list, tuple)):
            out_dims = (out_dims,) * len(outputs)
        if not several:
            out_dims = (out_dims,)
        if len(out_dims) != len(outputs):
            raise RuntimeError(f"{name}: out_dims must have one entry per output")
        pairs = [_samples_first(o, d) for o, d in zip(outputs, out_dims, strict=True)]
        results = tuple(o for o, _ in pairs) if several else pairs[0][0]
        return results, tuple(d for _, d in pairs)

    return run


def _shown(dim, argument):
    if dim < 0:
        return None
    return [dim] * len(argument) if isinstance(argument, list) else dim


def _samples_first(output, dim):
    if isinstance(output, (list, tuple)):
        dims = dim if isinstance(dim, (list, tuple)) else [dim] * len(output)
        if all(d is None for d in dims):
            return list(output), -1
        if any(d is None for d in dims):
            raise RuntimeError("of a list of results, either all have samples or none")
        return [o.movedim(d, 0) for o, d in zip(output, dims, strict=True)], 0
    if dim is None or output is None:
        return output, -1
    return output.movedim(dim, 0), 0
