"""Collectives that return new tensors and leave their arguments as they are.

The results are there when a function returns (on a GPU, as far as this thread's stream is
concerned), so ``wait_tensor`` has nothing to wait for. Those whose names end in ``_autograd`` carry
gradients; the others' results have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import distributed as dist
from rushlight._C import Tensor
from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.nn import functional as with_gradients

__all__ = [
    "AsyncCollectiveTensor",
    "all_gather_into_tensor_coalesced",
    "all_gather_single",
    "all_gather_tensor",
    "all_gather_tensor_autograd",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all_single",
    "all_to_all_single_autograd",
    "broadcast",
    "permute_tensor",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_autograd",
    "reduce_scatter_tensor_coalesced",
    "wait_tensor",
]


class AsyncCollectiveTensor(Tensor):
    """For ``isinstance``: there are none, results are there at once."""


def _group_of(group: Any) -> Any:
    """A process group of what programs name: one, ranks, a mesh of one dim, or a mesh's dim."""
    if isinstance(group, tuple) and len(group) == 2 and isinstance(group[0], DeviceMesh):
        return group[0].get_group(group[1])
    if isinstance(group, DeviceMesh):
        if group.ndim != 1:
            raise ValueError(
                f"the mesh has {group.ndim} dims; name one of them: (mesh, dim), got {group}"
            )
        return group.get_group()
    if isinstance(group, list):
        return dist.new_group(group)
    return group


def _operation(name: str) -> Any:
    known = {"sum", "avg", "product", "min", "max", "band", "bor", "bxor"}
    if not isinstance(name, str):
        return name
    if name.lower() not in known:
        raise ValueError(f"no reduction {name!r}; there are {', '.join(sorted(known))}")
    return getattr(dist.ReduceOp, name.upper())


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor."""
    return tensor


@rushlight.no_grad()
def broadcast(self: Tensor, src: int, group: Any, tag: str = "") -> Tensor:
    """The values of rank ``src``."""
    out = self.clone(memory_format=rushlight.contiguous_format)
    dist.broadcast(out, src, _group_of(group))
    return out


@rushlight.no_grad()
def all_reduce(self: Tensor, reduceOp: str, group: Any, tag: str = "") -> Tensor:
    """The ranks' tensors in one, by "sum", "avg", "max" and so on."""
    out = self.clone(memory_format=rushlight.contiguous_format)
    dist.all_reduce(out, _operation(reduceOp), _group_of(group))
    return out


def all_reduce_coalesced(
    self: Sequence[Tensor], reduceOp: str, group: Any, tag: str = ""
) -> list[Tensor]:
    """``all_reduce`` of each tensor of a list."""
    found = _group_of(group)
    return [all_reduce(t, reduceOp, found) for t in self]


def all_gather_tensor_autograd(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    """All ranks' tensors behind each other along a dim."""
    return rushlight.cat(with_gradients.all_gather(self, _group_of(group)), gather_dim)


@rushlight.no_grad()
def all_gather_tensor(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    """All ranks' tensors behind each other along a dim."""
    return all_gather_tensor_autograd(self, gather_dim, group)


def all_gather_single(self: Tensor, group: Any, tag: str = "") -> Tensor:
    """All ranks' tensors behind each other along the first dim."""
    return all_gather_tensor(self, 0, group)


def all_gather_into_tensor_coalesced(
    self: Sequence[Tensor], group: Any, tag: str = ""
) -> list[Tensor]:
    """``all_gather_tensor`` along the first dim, of each tensor of a list."""
    found = _group_of(group)
    return [all_gather_tensor(t, 0, found) for t in self]


def reduce_scatter_tensor_autograd(
    self: Tensor, reduceOp: str, scatter_dim: int, group: Any, tag: str = ""
) -> Tensor:
    """This rank's part, along a dim, of the ranks' tensors in one."""
    found = _group_of(group)
    size = dist.get_world_size(found)
    if self.shape[scatter_dim] % size:
        raise ValueError(
            f"reduce_scatter_tensor: dim {scatter_dim} of {list(self.shape)} cannot be cut into "
            f"{size} equal parts"
        )
    parts = [t.contiguous() for t in self.chunk(size, scatter_dim)]
    out = rushlight.empty_like(parts[0])
    return with_gradients.reduce_scatter(out, parts, _operation(reduceOp), found)


@rushlight.no_grad()
def reduce_scatter_tensor(
    self: Tensor, reduceOp: str, scatter_dim: int, group: Any, tag: str = ""
) -> Tensor:
    """This rank's part, along a dim, of the ranks' tensors in one."""
    return reduce_scatter_tensor_autograd(self, reduceOp, scatter_dim, group)


def reduce_scatter_tensor_coalesced(
    inputs: Sequence[Tensor], reduceOp: str, scatter_dim: Sequence[int], group: Any, tag: str = ""
) -> list[Tensor]:
    """``reduce_scatter_tensor`` of each tensor of a list, with a dim for each."""
    found = _group_of(group)
    return [
        reduce_scatter_tensor(t, reduceOp, dim, found)
        for t, dim in zip(inputs, scatter_dim, strict=True)
    ]


def all_to_all_single_autograd(
    self: Tensor, output_split_sizes: list[int] | None, input_split_sizes: list[int] | None,
    group: Any, tag: str = "",
) -> Tensor:  # fmt: skip
    """Rows go to each rank, and come from each: equally many, or as the sizes say."""
    rows = self.shape[0] if output_split_sizes is None else sum(output_split_sizes)
    out = self.new_empty((rows, *self.shape[1:]))
    return with_gradients.all_to_all_single(
        out, self.contiguous(), output_split_sizes, input_split_sizes, _group_of(group)
    )


@rushlight.no_grad()
def all_to_all_single(
    self: Tensor, output_split_sizes: list[int] | None, input_split_sizes: list[int] | None,
    group: Any, tag: str = "",
) -> Tensor:  # fmt: skip
    """Rows go to each rank, and come from each: equally many, or as the sizes say."""
    return all_to_all_single_autograd(self, output_split_sizes, input_split_sizes, group)


def permute_tensor(self: Tensor, src_dst: list[int], group: Any, tag: str = "") -> Tensor:
    """Rank i's tensor goes to rank ``src_dst[i]``."""
    found = _group_of(group)
    rank, size = dist.get_rank(found), dist.get_world_size(found)
    if sorted(src_dst) != list(range(size)):
        raise ValueError(
            f"permute_tensor: each of the {size} ranks must stand in src_dst once, got {src_dst}"
        )
    sent = [self.numel() if src_dst[rank] == r else 0 for r in range(size)]
    received = [self.numel() if src_dst.index(rank) == r else 0 for r in range(size)]
    flat = all_to_all_single(self.reshape(-1), received, sent, found)
    return flat.view(self.shape)
