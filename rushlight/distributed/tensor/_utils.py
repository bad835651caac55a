"""Where a rank's part of a cut tensor lies in the whole one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight._names.missing import names_missing_from
from rushlight.distributed._placements import part_sizes

__all__ = ["compute_local_shape_and_global_offset"]


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: Any, placements: Sequence[Any]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of this rank's part, and the index at which it begins in the whole tensor. Of a
    tensor that is cut twice along one dim, the earlier dim of the mesh cuts first."""
    shape, offset = list(global_shape), [0] * len(global_shape)
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        return (0,), ()
    for mesh_dim, placement in enumerate(placements):
        if getattr(placement, "split_factor", 1) != 1:
            raise NotImplementedError(
                "compute_local_shape_and_global_offset: parts that do not lie in one piece "
                f"({placement}) have no offset"
            )
        if not placement.is_shard():
            continue
        dim = placement.dim % len(shape)
        sizes = part_sizes(shape[dim], mesh.size(mesh_dim))
        at = coordinate[mesh_dim]
        offset[dim] += sum(sizes[:at])
        shape[dim] = sizes[at]
    return tuple(shape), tuple(offset)


__getattr__ = names_missing_from(__name__)
