"""Sums of sparse tensors over ranks: each has other places, so places and values are gathered."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import distributed as dist
from rushlight._C import Tensor
from rushlight.distributed._errors import DistArgumentError


def gathered_sum(tensor: Tensor, group: Any) -> Tensor:
    """The sum of all ranks' sparse tensors, coalesced."""
    size = dist.get_world_size(group)
    own = tensor.detach().coalesce()
    places, values = own.indices(), own.values()
    counts = rushlight.zeros(size, dtype=rushlight.int64, device=values.device)
    mine = rushlight.tensor([places.shape[1]], device=values.device)
    dist.all_gather_into_tensor(counts, mine, group)
    most = int(counts.max())
    every_place = _every(places.t(), most, size, group)
    every_value = _every(values, most, size, group)
    kept = [slice(r * most, r * most + n) for r, n in enumerate(counts.tolist())]
    places = rushlight.cat([every_place[part] for part in kept]).t()
    values = rushlight.cat([every_value[part] for part in kept])
    return rushlight.sparse_coo_tensor(places, values, own.shape).coalesce()


def _every(rows: Tensor, most: int, size: int, group: Any) -> Tensor:
    """All ranks' rows, each rank's filled up to the most that one has."""
    padded = rows.new_zeros((most, *rows.shape[1:]))
    padded[: rows.shape[0]] = rows
    every = rows.new_zeros((size * most, *rows.shape[1:]))
    dist.all_gather_into_tensor(every, padded, group)
    return every


def all_reduce_sparse(tensor: Tensor, op: Any, group: Any) -> None:
    """all_reduce of a sparse tensor, in place: its sum or mean."""
    if op not in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
        raise DistArgumentError(f"all_reduce: sparse tensors are added (SUM, AVG), got {op}")
    if tensor.layout != rushlight.sparse_coo:
        raise DistArgumentError(
            f"all_reduce: of sparse tensors, sparse_coo is known, got {tensor.layout}"
        )
    total = gathered_sum(tensor, group)
    if op is dist.ReduceOp.AVG:
        total = total / dist.get_world_size(group)
    with rushlight.no_grad():
        tensor.copy_(total)
