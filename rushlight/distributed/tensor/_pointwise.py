"""Operators that work element by element."""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight.distributed._placements import Partial, Replicate, Shard
from rushlight.distributed.tensor._calls import (
    cut_alike,
    dtensors,
    moved,
    replace,
    run,
    unsupported,
)
from rushlight.distributed.tensor._dtensor import DTensor, local_of
from rushlight.utils._pytree import tree_map

# The sum of parts is the part of the sum for the linear ones.
LINEAR = frozenset(
    "neg clone contiguous to float double half bfloat16 type_as alias detach".split()
)
ADDING = frozenset("add sub".split())
SCALING = frozenset("mul div truediv".split())


def pointwise(func, name, args, kwargs):
    tensors = dtensors(args, kwargs)
    mesh = tensors[0]._mesh
    dims = max(t.dim() for t in tensors)
    for mesh_dim in range(mesh.ndim):
        partial = [isinstance(t._placements[mesh_dim], Partial) for t in tensors]
        sums = all(
            t._placements[mesh_dim].reduce_op in ("sum", "avg")
            for t, p in zip(tensors, partial, strict=True)
            if p
        )
        exact = not kwargs.get("rounding_mode")
        scaled = name in SCALING and sum(partial) == 1 and (partial[0] or name == "mul") and exact
        linear = name in LINEAR or (name in ADDING and all(partial) and _only(tensors, args))
        if any(partial) and not (sums and (linear or scaled)):
            tensors = [moved(t, mesh_dim, Replicate()) if p else t
                       for t, p in zip(tensors, partial, strict=True)]  # fmt: skip
            partial = [False] * len(tensors)
        if any(partial):
            others = [t for t, p in zip(tensors, partial, strict=True) if not p]
            if any(not isinstance(t._placements[mesh_dim], Replicate) for t in others):
                tensors = [moved(t, mesh_dim, Replicate()) for t in tensors]
            continue
        cuts = {
            t._placements[mesh_dim].dim - t.dim() + dims
            for t in tensors
            if isinstance(t._placements[mesh_dim], Shard)
        }
        if not cuts:
            continue
        cut = min(cuts)
        tensors = [cut_alike(t, mesh_dim, cut - dims + t.dim()) for t in tensors]
    args, kwargs = replace(args, kwargs, tensors)
    placements = _of_result(tensors, dims)
    # (A meta tensor, which would tell the shape, goes to no device.)
    moves = name in ("to", "cpu", "cuda")
    return run(func, args, kwargs, placements, tensors[0].shape if moves else None)


def _only(tensors, args):
    """Are the DTensors all that is added? A number would be added once per rank."""
    return len(tensors) == len([a for a in args if a is not None])


def _of_result(tensors, dims):
    out = []
    for mesh_dim in range(len(tensors[0]._placements)):
        found: Any = Replicate()
        for t in tensors:
            p = t._placements[mesh_dim]
            if isinstance(p, Shard):
                found = Shard(p.dim - t.dim() + dims)
            elif isinstance(p, Partial):
                found = p
        out.append(found)
    return tuple(out)


def in_place(func, name, args, kwargs):
    """The others lie as the tensor that is changed does."""
    first = args[0]
    if not isinstance(first, DTensor):
        raise unsupported(name, dtensors(args, kwargs))
    if any(isinstance(p, Partial) for p in first._placements) and name not in ("zero_", "copy_"):
        raise unsupported(name, [first])
    others = []
    for t in dtensors(args, kwargs)[1:]:
        for mesh_dim, p in enumerate(first._placements):
            if isinstance(p, Shard):
                t = cut_alike(t, mesh_dim, p.dim - first.dim() + t.dim())
            else:
                t = moved(t, mesh_dim, p)
        others.append(t)
    args, kwargs = replace(args, kwargs, [first, *others])
    with _C.DisableTorchFunctionSubclass():
        func(*tree_map(local_of, args), **tree_map(local_of, kwargs))
    return first
