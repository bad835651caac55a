"""vmap: a function of one sample becomes a function of many."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import _C
from rushlight._C import Tensor
from rushlight.utils._pytree import (
    _broadcast_to_and_flatten,
    tree_flatten,
    tree_unflatten,
)

_RANDOMNESS = {"error": 0, "different": 1, "same": 2}


@contextlib.contextmanager
def batch_level(size, randomness="error", linear=False):
    """A level of vmap. Linear: only tangents and gradients have samples, see ops/vmap/vmap.h."""
    level = _C._vmap_enter(size, _RANDOMNESS[randomness], linear)
    try:
        yield level
    finally:
        _C._vmap_exit()


def _name(func):
    return getattr(func, "__name__", repr(func))


def check_randomness(randomness, where="vmap"):
    if randomness not in _RANDOMNESS:
        raise RuntimeError(
            f"{where}: randomness must be 'error', 'different' or 'same', got {randomness!r}"
        )


def _flat_in_dims(in_dims, args, func):
    """The leaves of args and one in_dim for each of them."""
    if not isinstance(in_dims, (int, tuple)) or isinstance(in_dims, bool):
        raise ValueError(
            f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): in_dims must be an int or a "
            f"(potentially nested) tuple that matches the inputs, not {type(in_dims).__name__}"
        )
    if not args:
        raise ValueError(
            f"vmap({_name(func)})(<inputs>): no inputs were given, so there is nothing to map over"
        )
    leaves, spec = tree_flatten(args)
    if isinstance(in_dims, tuple) and len(in_dims) != len(args):
        raise ValueError(
            f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible "
            f"with the structure of the inputs: {len(in_dims)} entries for {len(args)} inputs"
        )
    dims = _broadcast_to_and_flatten(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible "
            f"with the structure of the inputs; give one for each input, or one for all"
        )
    return leaves, spec, dims


def _checked_dim(func, in_dims, leaf, dim):
    """dim as a number from 0, after the checks; None stays None."""
    where = f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>)"
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
            f"vmap({_name(func)}, ...)(<inputs>): at least one input must be mapped over; all "
            "in_dims are None"
        )
    if any(s != sizes[0] for s in sizes):
        raise ValueError(
            f"vmap({_name(func)}, ...)(<inputs>): expected all mapped dimensions to have the same "
            f"size, got sizes {sizes}"
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
            f"vmap({_name(func)}, ..., out_dims={out_dims}): out_dims is not compatible with the "
            "structure of the outputs; give an int for all of them, or one entry for each"
        )
    return dims


def _removed(func, out_dims, value, dim, level, size):
    """An output outside of the level."""
    where = f"vmap({_name(func)}, ..., out_dims={out_dims})"
    if not isinstance(value, Tensor):
        if dim is None:
            return value
        raise ValueError(
            f"{where}: the function must return tensors only, got {type(value).__name__}; with "
            "out_dims None for it, it is returned as it is"
        )
    if dim is None:
        if _C._batch_level(value) == level:
            raise ValueError(
                f"{where}: an output has one value for each sample, but its out_dim is None"
            )
        return value
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise ValueError(f"{where}: an out_dim must be an int or None, got {dim!r}")
    rank = value.dim() + 1
    if not -rank <= dim < rank:
        raise IndexError(
            f"{where}: out_dim {dim} is out of range; the outputs have {rank} dimensions with that "
            f"of the samples, so it must be in [-{rank}, {rank - 1}]"
        )
    return _C._vmap_remove(value, dim, level)


def _run(func, in_dims, out_dims, randomness, args, kwargs, linear):
    leaves, spec, dims = _flat_in_dims(in_dims, args, func)
    dims = [_checked_dim(func, in_dims, leaf, d) for leaf, d in zip(leaves, dims, strict=True)]
    extra, extra_spec = tree_flatten(kwargs)
    extra_dims = [0 if isinstance(x, Tensor) else None for x in extra]
    for x in extra:
        if isinstance(x, Tensor) and x.dim() == 0:
            raise ValueError(
                f"vmap({_name(func)}, ...): keyword arguments are mapped over dimension 0, but one "
                "of them is a 0-d tensor; bind it with functools.partial instead"
            )
    size = _common_size(func, [*leaves, *extra], [*dims, *extra_dims])
    with batch_level(size, randomness, linear) as level:

        def add(values, value_dims):
            return [
                v if d is None else _C._vmap_add(v, d, level)
                for v, d in zip(values, value_dims, strict=True)
            ]

        outputs = func(
            *tree_unflatten(add(leaves, dims), spec),
            **tree_unflatten(add(extra, extra_dims), extra_spec),
        )
        flat, out_spec = tree_flatten(outputs)
        flat_dims = _flat_out_dims(out_dims, out_spec, func)
        results = [
            _removed(func, out_dims, v, d, level, size)
            for v, d in zip(flat, flat_dims, strict=True)
        ]
    return tree_unflatten(results, out_spec)


def _run_chunks(func, in_dims, out_dims, randomness, chunk_size, args, kwargs, linear):
    leaves, spec, dims = _flat_in_dims(in_dims, args, func)
    dims = [_checked_dim(func, in_dims, leaf, d) for leaf, d in zip(leaves, dims, strict=True)]
    extra, extra_spec = tree_flatten(kwargs)
    extra_dims = [0 if isinstance(x, Tensor) else None for x in extra]
    size = _common_size(func, [*leaves, *extra], [*dims, *extra_dims])
    if size <= chunk_size:
        return _run(func, in_dims, out_dims, randomness, args, kwargs, linear)

    def part(values, value_dims, start):
        length = min(chunk_size, size - start)
        return [
            v if d is None else v.narrow(d, start, length)
            for v, d in zip(values, value_dims, strict=True)
        ]

    chunks = []
    generator_state = rushlight.get_rng_state() if randomness == "same" else None
    for start in range(0, size, chunk_size):
        if generator_state is not None:
            rushlight.set_rng_state(generator_state)
        chunks.append(
            tree_flatten(
                _run(
                    func,
                    in_dims,
                    out_dims,
                    randomness,
                    tree_unflatten(part(leaves, dims, start), spec),
                    tree_unflatten(part(extra, extra_dims, start), extra_spec),
                    linear,
                )
            )
        )
    out_spec = chunks[0][1]
    flat_dims = _flat_out_dims(out_dims, out_spec, func)
    columns = zip(*(values for values, _ in chunks), strict=True)
    joined = [
        column[0] if dim is None else rushlight.cat(column, dim)
        for column, dim in zip(columns, flat_dims, strict=True)
    ]
    return tree_unflatten(joined, out_spec)


def vmap(
    func: Callable[..., Any],
    in_dims: int | tuple[Any, ...] | None = 0,
    out_dims: int | tuple[Any, ...] | None = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
    _linear: bool = False,
) -> Callable[..., Any]:
    """A function that runs ``func`` on every sample at once.

    ``in_dims`` says which dimension of each input counts the samples (None: the input is shared),
    ``out_dims`` where they go in the outputs. ``randomness`` is 'error', 'different' (each sample
    draws its own numbers) or 'same'; ``chunk_size`` runs that many samples at a time.

    The function sees single samples; its operations run once for all of them.

    Arguments:
        func: a function of tensors.
        in_dims: the dim of samples per argument; None passes an argument as it is.
        out_dims: where the dim of samples goes in results.
        randomness: 'error', 'different' (per sample) or 'same'.
        chunk_size: so many samples at a time; None is all.

    Example:
        >>> dot = rl.vmap(rl.dot, in_dims=(0, None))
        >>> dot(rl.tensor([[1.0, 2.0], [3.0, 4.0]]), rl.tensor([1.0, 10.0]))
        tensor([21., 43.])
    """
    check_randomness(randomness)
    if chunk_size is not None and not (isinstance(chunk_size, int) and chunk_size > 0):
        raise ValueError(f"vmap: chunk_size must be None or a positive int, got {chunk_size!r}")

    @functools.wraps(func)
    def mapped(*args, **kwargs):
        if chunk_size is not None:
            return _run_chunks(
                func, in_dims, out_dims, randomness, chunk_size, args, kwargs, _linear
            )
        return _run(func, in_dims, out_dims, randomness, args, kwargs, _linear)

    return mapped
