"""vmap: a function of one sample becomes a function of many."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import _C
from rushlight.utils._pytree import tree_flatten, tree_unflatten

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
    """What messages call a function."""
    return getattr(func, "__name__", repr(func))


def check_randomness(randomness, where="vmap"):
    if randomness not in _RANDOMNESS:
        raise RuntimeError(
            f"{where}: randomness must be 'error', 'different' or 'same', got {randomness!r}"
        )


def _run(func, in_dims, out_dims, randomness, args, kwargs, linear):
    import rushlight._functorch.vmap as steps

    inputs = steps._process_batched_inputs(in_dims, args, func)
    return _run_flat(steps, func, inputs, out_dims, randomness, kwargs, linear)


def _run_flat(steps, func, inputs, out_dims, randomness, kwargs, linear):
    size, dims, leaves, spec = inputs
    with batch_level(size, randomness, linear) as level:
        outputs = func(*steps._create_batched_inputs(dims, leaves, level, spec), **kwargs)
        return steps._unwrap_batched(outputs, out_dims, level, size, func)


def _run_chunks(func, in_dims, out_dims, randomness, chunk_size, args, kwargs, linear):
    import rushlight._functorch.vmap as steps

    size, dims, leaves, spec = steps._process_batched_inputs(in_dims, args, func)

    def part(start):
        stop = min(size, start + chunk_size)
        some = [
            v if d is None else v[(slice(None),) * d + (slice(start, stop),)]
            for v, d in zip(leaves, dims, strict=True)
        ]
        return stop - start, dims, some, spec

    chunks = []
    generator_state = rushlight.get_rng_state() if randomness == "same" else None
    for start in range(0, max(size, 1), chunk_size):
        if generator_state is not None:
            rushlight.set_rng_state(generator_state)
        found = _run_flat(steps, func, part(start), out_dims, randomness, kwargs, linear)
        chunks.append(tree_flatten(found))
    out_spec = chunks[0][1]
    flat_dims = steps._flat_out_dims(out_dims, out_spec, func)
    columns = zip(*(values for values, _ in chunks), strict=True)
    joined = [
        column[0] if dim is None or len(chunks) == 1 else rushlight.cat(column, dim)
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

    The function sees single samples; its operations run once for all of them. Keyword arguments
    pass as they are.

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
