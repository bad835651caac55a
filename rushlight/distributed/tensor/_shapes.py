"""Operators that change shapes, and reductions along dims."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight import _C
from rushlight._C import Tensor
from rushlight.distributed._placements import Partial, Replicate, Shard
from rushlight.distributed.tensor._calls import (
    all_replicated,
    check_mixed,
    dtensors,
    moved,
    run,
    whole_shape,
    without_partial,
)
from rushlight.distributed.tensor._dtensor import DTensor, redistributed


def mapped(func, name, args, kwargs, where, shape=None):
    """For ops of one tensor that keep whole dims: ``where(dim)`` is the result's dim, or None where
    the tensor must be whole along it."""
    x = args[0]
    out: list[Any] = []
    for mesh_dim, p in enumerate(x._placements):
        to = where(p.dim) if isinstance(p, Shard) else None
        if isinstance(p, Shard) and to is None:
            x = moved(x, mesh_dim, Replicate())
            p = Replicate()
        out.append(Shard(to) if isinstance(p, Shard) else p)
    return run(func, (x, *args[1:]), kwargs, tuple(out), shape)


def permuting(func, name, args, kwargs):
    dims = args[0].dim()
    lengths = [i + 2 for i in range(dims)]
    with _C.DisableTorchFunctionSubclass():
        probe = func(rushlight.empty(lengths, device="meta"), *args[1:], **kwargs)
    return mapped(func, name, args, kwargs, lambda d: list(probe.shape).index(d + 2))


def unsqueeze(func, name, args, kwargs):
    at = kwargs.get("dim", args[1] if len(args) > 1 else None)
    at = at % (args[0].dim() + 1)
    return mapped(func, name, args, kwargs, lambda d: d + (at <= d))


def squeeze(func, name, args, kwargs):
    x = args[0]
    named = kwargs.get("dim", args[1] if len(args) > 1 else None)
    dims = _dims_argument((), {"dim": named}, x.dim())
    gone = [d for d in dims if x._shape[d] == 1]
    shape = [n for d, n in enumerate(x._shape) if d not in gone]

    def where(d: int) -> int | None:
        return None if d in gone else d - sum(g < d for g in gone)

    # (A local part may have length 1 where the whole has not.)
    return mapped(lambda t: t.squeeze(gone) if gone else t, name, (x,), {}, where, shape)


def expand(func, name, args, kwargs):
    x = args[0]
    shape = list(whole_shape(func, args, kwargs))
    new = len(shape) - x.dim()
    sizes = [-1 if i >= new and x._shape[i - new] == n else n for i, n in enumerate(shape)]

    def where(d: int) -> int | None:
        return d + new if sizes[d + new] == -1 else None

    return mapped(lambda t: t.expand(sizes), name, (x,), {}, where, shape)


def repeat(func, name, args, kwargs):
    times = args[1] if isinstance(args[1], (list, tuple)) else args[1:]
    x = args[0]
    new = len(times) - x.dim()
    if new < 0 or kwargs:
        return all_replicated(func, args, kwargs)
    return mapped(func, name, args, kwargs, lambda d: d + new if times[d + new] == 1 else None)


def triangular(func, name, args, kwargs):
    """Where an element lies in the last two dims decides."""
    args, kwargs = without_partial(args, kwargs)
    last = args[0].dim() - 2
    return mapped(func, name, args, kwargs, lambda d: d if d < last else None)


def turning(func, name, args, kwargs):
    """flip and roll, along dims that must be whole."""
    x = args[0]
    at = 1 if name == "flip" else 2
    named = kwargs.get("dims", args[at] if len(args) > at else ())
    if name == "flip" and len(args) > 2:
        named = args[1:]
    dims = _dims_argument((), {"dim": named}, x.dim())
    return mapped(func, name, args, kwargs, lambda d: None if d in dims else d)


def _groups_of_dims(old, new):
    """Pairs of ranges of dims, old and new, with the same number of elements."""
    i = j = 0
    pairs = []
    while i < len(old) or j < len(new):
        a, b = i, j
        x = old[i] if i < len(old) else 1
        y = new[j] if j < len(new) else 1
        i, j = min(i + 1, len(old)), min(j + 1, len(new))
        while x != y:
            if x < y and i < len(old):
                x *= old[i]
                i += 1
            elif j < len(new):
                y *= new[j]
                j += 1
            else:
                return None
        pairs.append((range(a, i), range(b, j)))
    return pairs


def reshaping(func, name, args, kwargs):
    x = args[0]
    shape = whole_shape(func, args, kwargs)
    pairs = _groups_of_dims(list(x._shape), list(shape)) if math.prod(x._shape) else None
    out: list[Any] = []
    local_shape = list(shape)
    for mesh_dim, p in enumerate(x._placements):
        to = None
        if isinstance(p, Shard) and pairs is not None:
            size = x._mesh.size(mesh_dim)
            for mine, theirs in pairs:
                if p.dim not in mine or not len(theirs):
                    continue
                before = [d for d in mine if d < p.dim and x._shape[d] != 1]
                even = x._shape[p.dim] % size == 0 and local_shape[theirs[0]] % size == 0
                if not before and even:
                    to = theirs[0]
        if isinstance(p, Shard) and to is None:
            x = moved(x, mesh_dim, Replicate())
            p = Replicate()
        if isinstance(p, Shard):
            assert to is not None
            local_shape[to] //= x._mesh.size(mesh_dim)
            p = Shard(to)
        out.append(p)
    return run(lambda t: t.reshape(local_shape), (x,), {}, tuple(out), shape)


def _dims_argument(args, kwargs, dims, at=1):
    """The dims that a call names; all where it names none."""
    given = kwargs.get("dim", kwargs.get("axis", args[at] if len(args) > at else None))
    if given is None or (isinstance(given, (list, tuple)) and not given):
        return list(range(dims))
    listed = given if isinstance(given, (list, tuple)) else [given]
    return [d % dims for d in listed]


def reducing(func, name, args, kwargs):
    x = args[0]
    if name == "norm":  # norm(p, dim, ...)
        named = kwargs.get("dim", args[2] if len(args) > 2 else None)
    else:
        named = kwargs.get("dim", args[1] if len(args) > 1 else None)
    if isinstance(named, (Tensor, str)) or (name == "vector_norm" and len(args) > 1):
        return all_replicated(func, args, kwargs)
    dims = _dims_argument((), {"dim": named}, x.dim())
    keeps = kwargs.get("keepdim", len(args) > 2 and args[2] is True)
    out: list[Any] = []
    for mesh_dim, p in enumerate(x._placements):
        if isinstance(p, Partial) and not (name == "sum" and p.reduce_op == "sum"):
            x, p = moved(x, mesh_dim, Replicate()), Replicate()
        if isinstance(p, Shard) and p.dim in dims:
            even = x._shape[p.dim] % x._mesh.size(mesh_dim) == 0
            if name == "sum" or (name == "mean" and even):
                out.append(Partial("sum" if name == "sum" else "avg"))
                continue
            x, p = moved(x, mesh_dim, Replicate()), Replicate()
        if isinstance(p, Shard) and not keeps:
            p = Shard(p.dim - sum(d < p.dim for d in dims))
        out.append(p)
    return run(func, (x, *args[1:]), kwargs, tuple(out))


def along_dim(func, name, args, kwargs):
    args, kwargs = without_partial(args, kwargs)
    x = args[0]
    dims = _dims_argument(args, kwargs, x.dim())
    if name == "topk":
        dims = _dims_argument(args, {"dim": -1, **kwargs}, x.dim(), at=2)
    return mapped(func, name, args, kwargs, lambda d: None if d in dims else d)


def splitting(func, name, args, kwargs):
    x = args[0]
    at = {"narrow": 1, "select": 1, "unbind": 1}.get(name, 2)
    dim = kwargs.get("dim", args[at] if len(args) > at else 0) % x.dim()
    drops = name in ("select", "unbind")

    def where(d: int) -> int | None:
        return None if d == dim else d - (drops and dim < d)

    return mapped(func, name, args, kwargs, where)


def getitem(func, name, args, kwargs):
    x, index = args
    index = index if isinstance(index, tuple) else (index,)
    if any(isinstance(i, (Tensor, list)) for i in index):
        return all_replicated(func, args, kwargs)
    named = sum(i is not None and i is not Ellipsis for i in index)
    to: dict[int, int | None] = {}
    old = new = 0
    for i in (*index, Ellipsis) if Ellipsis not in index else index:
        if i is Ellipsis:
            for _ in range(x.dim() - named):
                to[old] = new
                old, new = old + 1, new + 1
        elif i is None:
            new += 1
        else:
            full = isinstance(i, slice) and i == slice(None)
            to[old] = new if full else None
            old, new = old + 1, new + isinstance(i, slice)
    return mapped(func, name, args, kwargs, to.get)


def cat(func, name, args, kwargs):
    tensors = list(args[0])
    if not all(isinstance(t, DTensor) for t in tensors):
        check_mixed(name, args, kwargs, dtensors(args, kwargs)[0]._mesh)
    first = tensors[0]
    dims = first.dim() + (name == "stack")
    dim = kwargs.get("dim", args[1] if len(args) > 1 else 0) % dims
    placements = tuple(
        Replicate() if isinstance(p, Partial)
        or (name == "cat" and isinstance(p, Shard) and p.dim == dim) else p
        for p in first._placements
    )  # fmt: skip
    tensors = [redistributed(t, placements) for t in tensors]
    out = tuple(
        Shard(p.dim + (name == "stack" and dim <= p.dim)) if isinstance(p, Shard) else p
        for p in placements
    )
    return run(func, (tensors,), {"dim": dim}, out)
