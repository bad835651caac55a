"""Products of matrices, and rows picked from them."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.distributed._placements import Partial, Replicate, Shard, part_sizes
from rushlight.distributed.tensor._calls import cut_alike, dtensors, moved, run, unsupported
from rushlight.distributed.tensor._dtensor import DTensor, local_of, wrap


def _matrix_product(func, args, kwargs, a, b, rows, inner, columns):
    """``rows(p.dim)``: the result's dim of a's dim, or None for the inner one; ``columns`` the same
    for b; ``inner``: both inner dims."""
    mesh = a._mesh
    out: list[Any] = []
    for mesh_dim in range(mesh.ndim):
        pa, pb = a._placements[mesh_dim], b._placements[mesh_dim]
        if isinstance(pa, Partial) and not isinstance(pb, Replicate):
            a, pa = moved(a, mesh_dim, Replicate()), Replicate()
        if isinstance(pb, Partial):
            b, pb = moved(b, mesh_dim, Replicate()), Replicate()
        if isinstance(pa, Partial):
            out.append(pa)
            continue
        a_inner = isinstance(pa, Shard) and pa.dim == inner[0]
        b_inner = isinstance(pb, Shard) and pb.dim == inner[1]
        if a_inner and isinstance(pb, Shard) and not b_inner:
            a, pa, a_inner = moved(a, mesh_dim, Replicate()), Replicate(), False
        if b_inner and isinstance(pa, Shard) and not a_inner:
            b, pb, b_inner = moved(b, mesh_dim, Replicate()), Replicate(), False
        if a_inner or b_inner:
            a, b = moved(a, mesh_dim, Shard(inner[0])), moved(b, mesh_dim, Shard(inner[1]))
            out.append(Partial())
            continue
        if isinstance(pa, Shard) and isinstance(pb, Shard) and rows(pa.dim) != columns(pb.dim):
            a, pa = moved(a, mesh_dim, Replicate()), Replicate()
        if isinstance(pa, Shard) and isinstance(pb, Shard):  # a batch dim of both
            out.append(Shard(rows(pa.dim)))
        elif isinstance(pa, Shard):
            batch_of_b = pa.dim < a.dim() - 2 and b.dim() > 2
            if batch_of_b:
                b = cut_alike(b, mesh_dim, pa.dim - a.dim() + b.dim())
            out.append(Shard(rows(pa.dim)))
        elif isinstance(pb, Shard):
            batch_of_a = pb.dim < b.dim() - 2 and a.dim() > 2
            if batch_of_a:
                a = cut_alike(a, mesh_dim, pb.dim - b.dim() + a.dim())
            out.append(Shard(columns(pb.dim)))
        else:
            out.append(Replicate())
    return a, b, tuple(out)


def matmul(func, name, args, kwargs):
    a, b = args[0], args[1]
    if name == "matmul" and getattr(func, "__name__", "") == "__rmatmul__":
        a, b = b, a
    if not isinstance(a, DTensor) or not isinstance(b, DTensor) or a.dim() < 2 or b.dim() < 2:
        raise unsupported(name, dtensors(args, kwargs))
    dims = max(a.dim(), b.dim())
    a, b, out = _matrix_product(
        func, args, kwargs, a, b,
        rows=lambda d: d - a.dim() + dims,
        inner=(a.dim() - 1, b.dim() - 2),
        columns=lambda d: d - b.dim() + dims,
    )  # fmt: skip
    return run(rushlight.matmul, (a, b), {}, out)


def linear(func, name, args, kwargs):
    x, weight, *rest = args
    bias = rest[0] if rest else kwargs.get("bias")
    if not isinstance(x, DTensor) or not isinstance(weight, DTensor):
        raise RuntimeError(
            "linear: got mixed Tensor and DTensor, need to convert all Tensor to DTensor before "
            "calling distributed operators"
        )
    dims = x.dim()
    x, weight, out = _matrix_product(
        func, args, kwargs, x, weight,
        rows=lambda d: d, inner=(dims - 1, 1), columns=lambda d: dims - 1,
    )  # fmt: skip
    if bias is None:
        return run(func, (x, weight), {}, out)
    for mesh_dim, p in enumerate(out):
        if isinstance(p, Partial):
            bias = moved(bias, mesh_dim, Partial())
        elif isinstance(p, Shard) and p.dim == dims - 1:
            bias = moved(bias, mesh_dim, Shard(0))
        else:
            bias = moved(bias, mesh_dim, Replicate())
    return run(func, (x, weight, bias), {}, out)


def addmm(func, name, args, kwargs):
    bias, a, b = args
    if kwargs.get("alpha", 1) != 1 or kwargs.get("beta", 1) != 1:
        raise unsupported(name, dtensors(args, kwargs))
    return matmul(rushlight.matmul, "matmul", (a, b), {}) + bias


def embedding(func, name, args, kwargs):
    """The core's order: weight, indices, the row that gets no gradient (-1: none)."""
    weight, ids, padding, *rest = (*args, -1) if len(args) == 2 else args
    if not isinstance(weight, DTensor) or kwargs:
        raise unsupported(name, dtensors(args, kwargs))
    mesh = weight._mesh
    if not isinstance(ids, DTensor):
        ids = wrap(ids, mesh, tuple(Replicate() for _ in weight._placements), ids.shape)
    shape = (*ids._shape, weight._shape[1])
    out: list[Any] = []
    local_ids, outside = local_of(ids), None
    for mesh_dim in range(mesh.ndim):
        p, cut = weight._placements[mesh_dim], ids._placements[mesh_dim]
        if isinstance(p, Partial) or isinstance(cut, Partial):
            raise unsupported(name, [ids, weight])
        if isinstance(p, Shard) and isinstance(cut, Shard):
            raise unsupported(name, [ids, weight])
        if isinstance(p, Shard) and p.dim == 0:  # the rows of other ranks count as zeros
            first, held = _first_row(weight, mesh_dim), local_of(weight).shape[0]
            mine = (local_ids >= first) & (local_ids < first + held)
            local_ids = rushlight.where(mine, local_ids - first, 0)
            padding = padding - first if first <= padding < first + held else -1
            outside = ~mine
            out.append(Partial())
        else:
            out.append(Shard(len(ids._shape)) if isinstance(p, Shard) else cut)
    if outside is None:
        return run(func, (weight, ids, padding, *rest), {}, tuple(out), shape)
    if local_of(weight).shape[0] == 0:
        raise unsupported(f"{name} on a rank without rows", [weight])

    def masked(rows: Any) -> Any:
        return func(rows, local_ids, padding, *rest).masked_fill(outside.unsqueeze(-1), 0)

    return run(masked, (weight,), {}, tuple(out), shape)


def _first_row(weight, mesh_dim):
    if weight._mesh.ndim != 1:
        cut = [p for p in weight._placements if isinstance(p, Shard) and p.dim == 0]
        if len(cut) > 1:
            raise unsupported("embedding", [weight])
    sizes = part_sizes(weight._shape[0], weight._mesh.size(mesh_dim))
    return sum(sizes[: weight._mesh.get_local_rank(mesh_dim)])
