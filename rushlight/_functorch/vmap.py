"""The steps of vmap: what becomes of arguments and results. `func.vmap` calls them by their names
in this module, so that a package may put its own in their place; tensordict does."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight._names.missing import names_missing_from
from rushlight.func._vmap import _name as _get_name
from rushlight.utils._pytree import (
    _broadcast_to_and_flatten,
    tree_flatten,
    tree_unflatten,
)


def _add_batch_dim(tensor, batch_dim, level):
    """A tensor for many samples from one that has them along batch_dim."""
    return _C._vmap_add(tensor, batch_dim, level)


def _remove_batch_dim(tensor, level, batch_size, out_dim):
    """The tensor with its samples along out_dim."""
    return _C._vmap_remove(tensor, out_dim, level)


def _flat_in_dims(in_dims, args, func):
    """The leaves of args and one in_dim for each of them."""
    if not isinstance(in_dims, (int, tuple)) or isinstance(in_dims, bool):
        raise ValueError(
            f"vmap({_get_name(func)}, in_dims={in_dims}, ...)(<inputs>): in_dims must be an int or "
            f"a (potentially nested) tuple that matches the inputs, not {type(in_dims).__name__}"
        )
    if not args:
        raise ValueError(
            f"vmap({_get_name(func)})(<inputs>): no inputs were given, so nothing is mapped over"
        )
    leaves, spec = tree_flatten(args)
    if isinstance(in_dims, tuple) and len(in_dims) != len(args):
        raise ValueError(
            f"vmap({_get_name(func)}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible "
            f"with the structure of the inputs: {len(in_dims)} entries for {len(args)} inputs"
        )
    dims = _broadcast_to_and_flatten(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"vmap({_get_name(func)}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible "
            f"with the structure of the inputs; give one for each input, or one for all"
        )
    return leaves, spec, dims


def _checked_dim(func, in_dims, leaf, dim):
    """dim as a number from 0, after the checks; None stays None."""
    where = f"vmap({_get_name(func)}, in_dims={in_dims}, ...)(<inputs>)"
    if dim is None:
        return None
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise ValueError(f"{where}: got in_dim={dim!r} for an input; it must be an int or None")
    if not isinstance(leaf, Tensor):
        raise ValueError(
            f"{where}: got in_dim={dim} for an input of type {type(leaf).__name__}; only tensors "
            "have dimensions to map over, use None for this input"
        )
    if not -leaf.dim() <= dim < leaf.dim():
        raise ValueError(
            f"{where}: got in_dim={dim} for an input of {leaf.dim()} dimensions; it must be in "
            f"-{leaf.dim()} <= in_dim < {leaf.dim()}"
        )
    return dim % leaf.dim()


def _common_size(func, leaves, dims):
    sizes = [leaf.shape[d] for leaf, d in zip(leaves, dims, strict=True) if d is not None]
    if not sizes:
        raise ValueError(
            f"vmap({_get_name(func)}, ...)(<inputs>): at least one input must be mapped over; all "
            "in_dims are None"
        )
    if any(s != sizes[0] for s in sizes):
        raise ValueError(
            f"vmap({_get_name(func)}, ...)(<inputs>): expected all mapped dimensions to have "
            f"the same size, got sizes {sizes}"
        )
    return sizes[0]


def _flat_out_dims(out_dims, spec, func):
    dims = _broadcast_to_and_flatten(
        out_dims, spec, is_leaf=lambda x: x is None or isinstance(x, int)
    )
    single = isinstance(out_dims, tuple) and len(out_dims) == 1 and spec.is_leaf()
    if dims is None and single:
        dims = [out_dims[0]]
    if dims is None:
        raise ValueError(
            f"vmap({_get_name(func)}, ..., out_dims={out_dims}): out_dims is not compatible with "
            "the structure of the outputs; give an int for all of them, or one entry for each"
        )
    return dims


def _maybe_remove_batch_dim(name, batched_output, vmap_level, batch_size, out_dim):
    """An output outside of the level: its samples along out_dim, or as it is where that is None."""
    value, where = batched_output, f"vmap({name}, ..., out_dims={out_dim})"
    if not isinstance(value, Tensor):
        if out_dim is None:
            return value
        raise ValueError(
            f"{where}: the function must return tensors only, got {type(value).__name__}; with "
            "out_dims None for it, it is returned as it is"
        )
    if out_dim is None:
        if _C._batch_level(value) == vmap_level:
            raise ValueError(
                f"{where}: an output has one value for each sample, but its out_dim is None"
            )
        return value
    if not isinstance(out_dim, int) or isinstance(out_dim, bool):
        raise ValueError(f"{where}: an out_dim must be an int or None, got {out_dim!r}")
    rank = value.dim() + 1
    if not -rank <= out_dim < rank:
        raise IndexError(
            f"{where}: out_dim {out_dim} is out of range; the outputs have {rank} dimensions with "
            f"that of the samples, so it must be in [-{rank}, {rank - 1}]"
        )
    return _remove_batch_dim(value, vmap_level, batch_size, out_dim)


def _process_batched_inputs(in_dims, args, func):
    """(number of samples, one dim per leaf, the leaves, how they stand in args)."""
    leaves, spec, dims = _flat_in_dims(in_dims, args, func)
    dims = [_checked_dim(func, in_dims, leaf, d) for leaf, d in zip(leaves, dims, strict=True)]
    return _common_size(func, leaves, dims), dims, leaves, spec


def _create_batched_inputs(flat_in_dims, flat_args, vmap_level, args_spec):
    """The arguments as the function gets them."""
    batched = [
        leaf if dim is None else _add_batch_dim(leaf, dim, vmap_level)
        for leaf, dim in zip(flat_args, flat_in_dims, strict=True)
    ]
    return tree_unflatten(batched, args_spec)


def _unwrap_batched(batched_outputs, out_dims, vmap_level, batch_size, func):
    """What the function returned, outside of the level."""
    flat, spec = tree_flatten(batched_outputs)
    results = [
        _maybe_remove_batch_dim(_get_name(func), value, vmap_level, batch_size, dim)
        for value, dim in zip(flat, _flat_out_dims(out_dims, spec, func), strict=True)
    ]
    return tree_unflatten(results, spec)


__getattr__ = names_missing_from(__name__)
