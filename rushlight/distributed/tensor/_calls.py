"""A call with DTensors in it: its arguments moved, run on local tensors, its results wrapped."""

from __future__ import annotations

import threading
from typing import Any

import rushlight
from rushlight import _C
from rushlight._C import Tensor
from rushlight.distributed._placements import Partial, Replicate, Shard
from rushlight.distributed.tensor._dtensor import DTensor, local_of, redistributed, wrap
from rushlight.distributed.tensor._moves import gradient_is_partial
from rushlight.utils._pytree import tree_flatten, tree_map, tree_unflatten

mixing = threading.local()  # .allowed: inside of implicit_replication


def as_replicated(args, kwargs, mesh):
    """The call with plain tensors as DTensors that are the same on all ranks."""
    placements = tuple(Replicate() for _ in range(mesh.ndim))

    def one(a: Any) -> Any:
        plain = isinstance(a, Tensor) and not isinstance(a, DTensor)
        return wrap(a, mesh, placements, a.shape) if plain else a

    return tree_map(one, args), tree_map(one, kwargs)


def dtensors(args, kwargs):
    found = [a for a in tree_flatten((args, kwargs))[0] if isinstance(a, DTensor)]
    return found


def check_mixed(name, args, kwargs, mesh):
    """Whole tensors of one element count as replicated; others must be told how they lie."""
    for a in tree_flatten((args, kwargs))[0]:
        if isinstance(a, DTensor):
            if a._mesh != mesh:
                raise RuntimeError(f"DTensor: {name} got tensors on two meshes")
        elif isinstance(a, Tensor) and a.numel() != 1:
            raise RuntimeError(
                f"{name}: got mixed Tensor and DTensor, need to convert all Tensor to DTensor "
                "before calling distributed operators (DTensor.from_local, distribute_tensor)"
            )


def unsupported(name, tensors):
    placements = ", ".join(str(t._placements) for t in tensors)
    return NotImplementedError(
        f"DTensor: {name} does not know what to do with {placements}; redistribute to Replicate() "
        "first, or work on to_local()"
    )


def whole_shape(func, args, kwargs):
    """The shape (or shapes) of the result for whole tensors, without computing it."""

    def as_meta(a: Any) -> Any:
        if isinstance(a, DTensor):
            return rushlight.empty(a._shape, dtype=a.dtype, device="meta")
        if isinstance(a, Tensor):
            return rushlight.empty(a.shape, dtype=a.dtype, device="meta")
        return a

    with _C.DisableTorchFunctionSubclass(), rushlight.no_grad():
        out = func(*tree_map(as_meta, args), **tree_map(as_meta, kwargs))
    return tree_map(lambda t: t.shape if isinstance(t, Tensor) else None, out)


def run(func, args, kwargs, placements, shape=None):
    """Runs on local tensors; the results lie as ``placements`` say."""
    tensors = dtensors(args, kwargs)
    mesh = tensors[0]._mesh
    whole = all(isinstance(p, Replicate) for p in placements)  # what comes out tells its shape
    if shape is None and not whole:
        shape = whole_shape(func, args, kwargs)

    def local(a: Any) -> Any:
        if not isinstance(a, DTensor):
            return a
        mine = local_of(a)
        for mesh_dim, out in enumerate(placements):
            if isinstance(a._placements[mesh_dim], Replicate) and not isinstance(out, Replicate):
                mine = gradient_is_partial(mine, mesh.get_group(mesh_dim))
        return mine

    with _C.DisableTorchFunctionSubclass():
        out = func(*tree_map(local, args), **tree_map(local, kwargs))
    leaves, spec = tree_flatten(out)
    if shape is None:
        shapes = [getattr(leaf, "shape", None) for leaf in leaves]
    else:
        shapes = [shape] if isinstance(out, Tensor) else _listed(shape)
    made = [
        wrap(leaf, mesh, placements, s) if isinstance(leaf, Tensor) else leaf
        for leaf, s in zip(leaves, shapes, strict=True)
    ]
    return tree_unflatten(made, spec)


def _listed(shapes):
    return list(shapes) if isinstance(shapes, (list, tuple)) else [shapes]


def moved(a, mesh_dim, placement):
    wanted = list(a._placements)
    wanted[mesh_dim] = placement
    return redistributed(a, tuple(wanted))


def replace(args, kwargs, new):
    """The call with other DTensors in the places of the first ones."""
    left = iter(new)
    return tree_map(lambda a: next(left) if isinstance(a, DTensor) else a, (args, kwargs))


def _replicated(args, kwargs):
    tensors = dtensors(args, kwargs)
    whole = [redistributed(t, tuple(Replicate() for _ in t._placements)) for t in tensors]
    return replace(args, kwargs, whole)


def all_replicated(func, args, kwargs):
    args, kwargs = _replicated(args, kwargs)
    tensors = dtensors(args, kwargs)
    return run(func, args, kwargs, tensors[0]._placements)


def without_partial(args, kwargs):
    tensors = []
    for t in dtensors(args, kwargs):
        kept = tuple(Replicate() if isinstance(p, Partial) else p for p in t._placements)
        tensors.append(redistributed(t, kept))
    return replace(args, kwargs, tensors)


def cut_alike(t, mesh_dim, dim):
    """Cut along this dim, unless the dim is missing or of length 1 (it is broadcast then)."""
    if dim < 0 or t._shape[dim] == 1:
        return moved(t, mesh_dim, Replicate())
    return moved(t, mesh_dim, Shard(dim))
