"""How a tensor would lie on a mesh of devices: values that programs name before they know whether
there will be a mesh."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


def part_sizes(total: int, ranks: int) -> list[int]:
    """How long each rank's part is: as chunk() cuts, with empty parts at the end."""
    each = -(-total // ranks) if ranks else 0
    return [max(0, min(each, total - r * each)) for r in range(ranks)]


class Placement:
    """Along one dim of a mesh."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Is the tensor cut, along this dim of its own if one is named?"""
        return False

    def is_replicate(self) -> bool:
        """Has every device the whole tensor?"""
        return False

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Has every device a part of a sum, or of another reduction?"""
        return False


@dataclass(frozen=True)
class Shard(Placement):
    """Cut along a dim."""

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"

    def is_shard(self, dim: int | None = None) -> bool:
        return dim is None or dim == self.dim

    @staticmethod
    def local_shard_size_and_offset(
        curr_local_size: int, num_chunks: int, rank: int
    ) -> tuple[int, int]:
        """How long a rank's part is, and where it begins."""
        sizes = part_sizes(curr_local_size, num_chunks)
        return sizes[rank], sum(sizes[:rank])


@dataclass(frozen=True)
class _StridedShard(Shard):
    """Cut along a dim that another dim of the mesh has cut into split_factor pieces."""

    split_factor: int = 1


@dataclass(frozen=True)
class Replicate(Placement):
    """The same on every device."""

    def __str__(self) -> str:
        return "R"

    def is_replicate(self) -> bool:
        return True


@dataclass(frozen=True)
class Partial(Placement):
    """A part of a reduction that is still to be done."""

    reduce_op: str = "sum"

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"

    def is_partial(self, reduce_op: str | None = None) -> bool:
        return reduce_op is None or reduce_op == self.reduce_op
