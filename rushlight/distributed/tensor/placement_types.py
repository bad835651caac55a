"""The placements, where PyTorch has them."""

from rushlight.distributed import _placements
from rushlight.distributed._placements import Partial, Placement, Replicate, Shard

__all__ = ["Partial", "Placement", "Replicate", "Shard"]

_StridedShard = _placements._StridedShard
