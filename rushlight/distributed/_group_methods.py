"""Collectives as methods of a ProcessGroup: PyTorch's lower interface. Ranks count in the group,
and each returns a Work."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from rushlight._C import Tensor
from rushlight.distributed._reductions import ReduceOp

_Work = Any  # distributed.Work, whose module needs this one


def _one(tensors: Any) -> Any:
    """The tensor of a list of one."""
    if isinstance(tensors, (list, tuple)):
        if len(tensors) != 1:
            raise ValueError(f"ProcessGroup: expected one tensor, got {len(tensors)}")
        return tensors[0]
    return tensors


def _parts(tensors: Any) -> Any:
    """The tensors of all ranks, which may be the only item of a list."""
    nested = isinstance(tensors, (list, tuple)) and len(tensors) == 1
    return tensors[0] if nested and isinstance(tensors[0], (list, tuple)) else tensors


def _told(opts: Any, name: str, default: Any) -> Any:
    """What options say, or the value in their place."""
    if opts is None:
        return default
    return getattr(opts, name, default) if hasattr(opts, "asyncOp") else opts


def _on() -> Any:
    from rushlight.distributed import _collectives

    return _collectives


class GroupMethods:
    """Methods of groups that the library carries out by itself; a user's class has its own."""

    def allreduce(
        self, tensors: Any, opts: Any = None, op: Any = None, timeout: timedelta | None = None
    ) -> _Work:
        """all_reduce of a tensor, or of a list of them."""
        op = op if op is not None else _told(opts, "reduceOp", ReduceOp.SUM)
        return _on().all_reduce_coalesced(tensors, op, self, async_op=True)

    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any = None) -> _Work:
        """all_reduce of several tensors."""
        return self.allreduce(tensors, opts)

    def broadcast(
        self, tensors: Any, opts: Any = None, root: int | None = None,
        timeout: timedelta | None = None,
    ) -> _Work:  # fmt: skip
        """broadcast from a rank of the group."""
        root = root if root is not None else _told(opts, "rootRank", 0)
        return _on().broadcast(_one(tensors), group=self, group_src=root, async_op=True)

    def allgather(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> _Work:
        """all_gather into a list, or into the list in a list."""
        return _on().all_gather(_parts(output_tensors), _one(input_tensors), self, async_op=True)

    def _allgather_base(self, output: Tensor, input: Tensor, opts: Any = None) -> _Work:
        return _on().all_gather_into_tensor(output, input, self, async_op=True)

    def reduce(
        self, tensors: Any, opts: Any = None, op: Any = None, root: int | None = None,
        timeout: timedelta | None = None,
    ) -> _Work:  # fmt: skip
        """reduce to a rank of the group."""
        root = root if root is not None else _told(opts, "rootRank", 0)
        op = op if op is not None else getattr(opts, "reduceOp", ReduceOp.SUM)
        return _on().reduce(_one(tensors), op=op, group=self, group_dst=root, async_op=True)

    def gather(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> _Work:
        """gather to a rank of the group."""
        return _on().gather(
            _one(input_tensors), _parts(output_tensors) or None, group=self,
            group_dst=_told(opts, "rootRank", 0), async_op=True,
        )  # fmt: skip

    def scatter(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> _Work:
        """scatter from a rank of the group."""
        return _on().scatter(
            _one(output_tensors), _parts(input_tensors) or None, group=self,
            group_src=_told(opts, "rootRank", 0), async_op=True,
        )  # fmt: skip

    def reduce_scatter(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, op: Any = None
    ) -> _Work:
        """reduce_scatter of a list, or of the list in a list."""
        op = op if op is not None else _told(opts, "reduceOp", ReduceOp.SUM)
        return _on().reduce_scatter(
            _one(output_tensors), _parts(input_tensors), op, self, async_op=True
        )

    def _reduce_scatter_base(self, output: Tensor, input: Tensor, opts: Any = None) -> _Work:
        op = _told(opts, "reduceOp", ReduceOp.SUM)
        return _on().reduce_scatter_tensor(output, input, op, self, async_op=True)

    def alltoall(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> _Work:
        """all_to_all."""
        return _on().all_to_all(output_tensors, input_tensors, self, async_op=True)

    def alltoall_base(
        self, output: Tensor, input: Tensor, output_split_sizes: list[int],
        input_split_sizes: list[int], opts: Any = None,
    ) -> _Work:  # fmt: skip
        """all_to_all_single."""
        return _on().all_to_all_single(
            output, input, output_split_sizes, input_split_sizes, self, async_op=True
        )

    def barrier(self, opts: Any = None, timeout: timedelta | None = None) -> _Work:
        """barrier."""
        return _on().barrier(self, async_op=True, timeout=timeout)

    def send(self, tensors: Any, dstRank: int, tag: int = 0) -> _Work:
        """isend to a rank of the group."""
        from rushlight.distributed._messages import isend

        return isend(_one(tensors), group=self, tag=tag, group_dst=dstRank)

    def recv(self, tensors: Any, srcRank: int, tag: int = 0) -> _Work:
        """irecv from a rank of the group."""
        from rushlight.distributed._messages import irecv

        return irecv(_one(tensors), group=self, tag=tag, group_src=srcRank)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> _Work:
        """irecv from whoever sends."""
        from rushlight.distributed._messages import irecv

        return irecv(_one(tensors), group=self, tag=tag)
