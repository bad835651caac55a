"""Collectives: what all ranks of a group do together. csrc/distributed has the core."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import rushlight
from rushlight import _C
from rushlight._C import Tensor
from rushlight.distributed._errors import DistArgumentError
from rushlight.distributed._groups import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BARRIER,
    BROADCAST,
    GATHER,
    RECV,
    REDUCE,
    REDUCE_SCATTER,
    SCATTER,
    Work,
)
from rushlight.distributed._process_groups import _is_outside, _rank_in, get_world_size
from rushlight.distributed._reductions import ReduceOp, reduction
from rushlight.distributed._user_backends import DoneWork, issue_to_user
from rushlight.distributed._world import world

__all__ = [
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_single",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "gather",
    "monitored_barrier",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "scatter",
]


def issue(
    what: str, group: Any, async_op: bool, kind: int, inputs: list[Any] | None = None,
    outputs: list[Any] | None = None, *, reduce: int = 0, root: int = 0, tag: int = 0,
    counts: tuple[list[int], list[int]] = ([], []), timeout: timedelta | None = None,
    gpu: int | None = None,
) -> Work | None:  # fmt: skip
    """One collective or message: the Work with async_op, else nothing once it is done. Without
    tensors ``gpu`` says where; None: where the group's own tensors go."""
    if _is_outside(group):
        warnings.warn(
            f"Running {what} on a group that this process does not belong to", stacklevel=3
        )
        return None
    member = world.member(group, what)
    place = -1
    if not inputs and not outputs:
        serves_gpus = "cuda" in member.group._backends
        place = member.group._gpu() if gpu is None or not serves_gpus else gpu
    user = member.group._user_for(inputs or outputs)
    seen = _C._profiler_begin_range(f"c10d::{what}", 0)  # 0 where nobody records
    try:
        if user is not None:
            return issue_to_user(
                what, user, member.ranks, async_op, kind, inputs, outputs, reduce, root, tag,
                counts, timeout,
            )  # fmt: skip
        core_work = member.group._core._collective(
            kind, inputs, outputs, reduce, root, tag, *counts, timeout, async_op, place
        )
    finally:
        _C._profiler_end_range(seen, False)
    return Work(core_work, member.ranks) if async_op or kind == RECV else None


def root_of(
    what: str, group: Any, rank: int | None, group_rank: int | None, default: int | None = None
) -> int:
    """The rank in the group that a call names in either way; outside of the group any number."""
    if rank is not None and group_rank is not None:
        raise ValueError(f"{what}: name the rank either in the world or in the group, not both")
    if _is_outside(group):
        return 0
    if rank is None and group_rank is None:
        if default is None:
            raise ValueError(f"{what}: name a rank, in the world or in the group")
        rank = default
    member = world.member(group, what)
    if group_rank is None:
        assert rank is not None
        return _rank_in(member, rank)
    if not 0 <= group_rank < len(member.ranks):
        raise DistArgumentError(f"Group rank {group_rank} is not part of group {member.group}")
    return group_rank


def _check_list(what, name, tensors, like, group):
    """One tensor per rank, each like this one."""
    if _is_outside(group):
        return
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"{what}: {name} must be a list of tensors, got {type(tensors).__name__}")
    size = get_world_size(group)
    if len(tensors) != size:
        raise DistArgumentError(
            f"{what}: {name} must hold one tensor per rank, {size}, got {len(tensors)}"
        )
    for other in tensors:
        if other.shape != like.shape:
            raise rushlight.ShapeError(
                f"{what}: the tensors must have one shape, got {list(like.shape)} and "
                f"{list(other.shape)}"
            )


def _list_at(what, name, tensors, like, group, root, side):
    """The list that one rank gives, and no other."""
    if _here(group, root):
        if not tensors:
            raise ValueError(f"Argument ``{name}`` must be specified on {side} rank.")
        _check_list(what, name, tensors, like, group)
    elif tensors:
        raise ValueError(f"Argument ``{name}`` must NOT be specified on non-{side} ranks.")
    return list(tensors) if tensors else None


def all_reduce(
    tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Puts the sum (or mean, product, ...) of all ranks' tensors into the tensor of each.

    Arguments:
        tensor: this rank's part, which the result replaces; sparse ones are only added (SUM, AVG).
        op: how the parts become one, a `ReduceOp`.
        group: the process group; None for the default one.
        async_op: return at once, with a `Work` to wait for.

    Returns:
        Work with `async_op`, else None.

    Example:
        >>> from rushlight import distributed as dist
        >>> def largest(rank):
        ...     x = rl.tensor([rank, -rank])
        ...     dist.all_reduce(x, op=dist.ReduceOp.MAX)
        ...     return x
        >>> dist.simulate(3, largest)
        [tensor([2, 0]), tensor([2, 0]), tensor([2, 0])]
    """
    return all_reduce_coalesced([tensor], op, group, async_op)


def all_reduce_coalesced(
    tensors: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """all_reduce of several tensors of one dtype, in one message.

    Arguments:
        tensors: this rank's parts, which the results replace; a single tensor will do.
        op: how the parts become one, a `ReduceOp`.
        group: the process group; None for the default one.
        async_op: return at once, with a `Work` to wait for.

    Returns:
        Work with `async_op`, else None.

    Example:
        >>> from rushlight import distributed as dist
        >>> def mean(rank):
        ...     x, y = rl.full((2,), float(rank)), rl.tensor([4.0 * rank])
        ...     dist.all_reduce_coalesced([x, y], op=dist.ReduceOp.AVG)
        ...     return x, y
        >>> dist.simulate(2, mean)[0]
        (tensor([0.5000, 0.5000]), tensor([2.]))
    """
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if any(isinstance(t, Tensor) and t.layout != rushlight.strided for t in tensors):
        return _all_reduce_sparse(tensors, op, group, async_op)
    number, tensors = reduction("all_reduce", op, tensors, in_place=True)
    return issue("all_reduce", group, async_op, ALL_REDUCE, tensors, tensors, reduce=number)


def _all_reduce_sparse(tensors, op, group, async_op):
    from rushlight.distributed._sparse_collectives import all_reduce_sparse

    if not _is_outside(group):
        for tensor in tensors:
            all_reduce_sparse(tensor, op, group)
    return DoneWork(tensors) if async_op else None


def reduce(
    tensor: Tensor, dst: int | None = None, op: Any = ReduceOp.SUM, group: Any = None,
    async_op: bool = False, group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Puts the sum (or mean, product, ...) of all ranks' tensors into that of one rank; those of
    the others stay as they are.

    Arguments:
        tensor: this rank's part; the result replaces it on the destination.
        dst: the rank that gets the result, counted in the default group.
        op: how the parts become one, a `ReduceOp`.
        group: the process group; None for the default one.
        async_op: return at once, with a `Work` to wait for.
        group_dst: the destination counted in `group`, instead of `dst`.

    Returns:
        Work with `async_op`, else None.

    Example:
        >>> from rushlight import distributed as dist
        >>> def product(rank):
        ...     x = rl.tensor([rank + 2])
        ...     dist.reduce(x, dst=1, op=dist.ReduceOp.PRODUCT)
        ...     return x
        >>> dist.simulate(3, product)
        [tensor([2]), tensor([24]), tensor([4])]
    """
    root = root_of("reduce", group, dst, group_dst)
    number, inputs = reduction("reduce", op, [tensor], in_place=True)
    outputs = inputs if _here(group, root) else None
    return issue("reduce", group, async_op, REDUCE, inputs, outputs, reduce=number, root=root)


def _here(group, root):
    return not _is_outside(group) and world.member(group, "collective").group.rank() == root


def broadcast(
    tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Copies the tensor of one rank to all.

    Arguments:
        tensor: what is sent on the source; on the others, where it goes.
        src: the source, counted in the default group.
        group: the process group; None for the default one.
        async_op: return at once, with a `Work` to wait for.
        group_src: the source counted in `group`, instead of `src`.

    Returns:
        Work with `async_op`, else None.

    Example:
        >>> from rushlight import distributed as dist
        >>> def share(rank):
        ...     x = rl.tensor([rank])
        ...     dist.broadcast(x, src=2)
        ...     return x.item()
        >>> dist.simulate(3, share)
        [2, 2, 2]
    """
    root = root_of("broadcast", group, src, group_src)
    return issue("broadcast", group, async_op, BROADCAST, [tensor], [tensor], root=root)


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Copies the tensor of each rank into the list of all ranks.

    Arguments:
        tensor_list: a tensor per rank, each of the shape of `tensor`; filled in the order of ranks.
        tensor: what this rank gives.
        group: the process group; None for the default one.
        async_op: return at once, with a `Work` to wait for.

    Returns:
        Work with `async_op`, else None.

    Example:
        >>> from rushlight import distributed as dist
        >>> def collect(rank):
        ...     parts = [rl.zeros(1) for _ in range(2)]
        ...     work = dist.all_gather(parts, rl.tensor([rank + 0.5]), async_op=True)
        ...     work.wait()
        ...     return parts
        >>> dist.simulate(2, collect)[0]
        [tensor([0.5000]), tensor([1.5000])]
    """
    _check_list("all_gather", "the list", tensor_list, tensor, group)
    return issue("all_gather", group, async_op, ALL_GATHER, [tensor], list(tensor_list))


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Copies the tensors of all ranks into one tensor, one behind the other.

    Arguments:
        output_tensor: where they go: the elements of `input_tensor`, times the number of ranks.
        input_tensor: what this rank gives.
        group: the process group; None for the default one.
        async_op: return at once, with a `Work` to wait for.

    Returns:
        Work with `async_op`, else None.

    Example:
        >>> from rushlight import distributed as dist
        >>> def collect(rank):
        ...     every = rl.zeros(4)
        ...     mine = rl.tensor([rank, rank + 10.0])
        ...     dist.all_gather_into_tensor(every, mine, async_op=True).wait()
        ...     return every
        >>> dist.simulate(2, collect)[1]
        tensor([ 0., 10.,  1., 11.])
    """
    what = "all_gather_into_tensor"
    return issue(what, group, async_op, ALL_GATHER, [input_tensor], [output_tensor])


all_gather_single = _all_gather_base = all_gather_into_tensor


def all_gather_coalesced(
    output_tensor_lists: list[list[Tensor]], input_tensor_list: list[Tensor], group: Any = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """all_gather of several tensors; ``output_tensor_lists[r]`` receives those of rank r.

    Arguments:
        output_tensor_lists: a list per rank, with a tensor for each of those that the rank gives.
        input_tensor_list: the tensors that this rank gives.
        group: the process group; None for the default one.
        async_op: return at once, with a `Work` to wait for.

    Returns:
        Work with `async_op`, else None. It is that of the last tensor, as a group finishes its
        collectives in order.

    Example:
        >>> from rushlight import distributed as dist
        >>> def collect(rank):
        ...     into = [[rl.zeros(1), rl.zeros(2)] for _ in range(2)]
        ...     mine = [rl.tensor([1.0 * rank]), rl.tensor([2.0, 3.0]) * rank]
        ...     dist.all_gather_coalesced(into, mine, async_op=True).wait()
        ...     return into
        >>> dist.simulate(2, collect)[0]
        [[tensor([0.]), tensor([0., 0.])], [tensor([1.]), tensor([2., 3.])]]
    """
    works = []
    for i, tensor in enumerate(input_tensor_list):
        outputs = [of_rank[i] for of_rank in output_tensor_lists]
        works.append(all_gather(outputs, tensor, group, async_op=True))
    if not async_op:
        for work in works:
            if work is not None:
                work.wait()
        return None
    return works[-1] if works else None  # a group finishes its collectives in order


def gather(
    tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int | None = None,
    group: Any = None, async_op: bool = False, group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Copies the tensor of each rank into the list of one rank.

    Arguments:
        tensor: what this rank gives.
        gather_list: on the destination a tensor per rank, all of the shape of `tensor`; None on
            the others.
        dst: the destination, counted in the default group; rank 0 where none is named.
        group: the process group; None for the default one.
        async_op: return at once, with a `Work` to wait for.
        group_dst: the destination counted in `group`, instead of `dst`.

    Returns:
        Work with `async_op`, else None.

    Example:
        >>> from rushlight import distributed as dist
        >>> def collect(rank):
        ...     parts = [rl.zeros(1) for _ in range(2)] if rank == 1 else None
        ...     dist.gather(rl.tensor([1.0 + rank]), parts, dst=1)
        ...     return parts
        >>> dist.simulate(2, collect)
        [None, [tensor([1.]), tensor([2.])]]
    """
    root = root_of("gather", group, dst, group_dst, default=0)
    outputs = _list_at("gather", "gather_list", gather_list, tensor, group, root, "destination")
    return issue("gather", group, async_op, GATHER, [tensor], outputs, root=root)


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None, src: int | None = None, group: Any = None,
    async_op: bool = False, group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Copies the r-th tensor of one rank's list into the tensor of rank r.

    Arguments:
        tensor: where this rank's part goes.
        scatter_list: on the source a tensor per rank, each of the shape of `tensor`; None on
            the others.
        src: the source, counted in the default group; rank 0 where none is named.
        group: the process group; None for the default one.
        async_op: return at once, with a `Work` to wait for.
        group_src: the source counted in `group`, instead of `src`.

    Returns:
        Work with `async_op`, else None.

    Example:
        >>> from rushlight import distributed as dist
        >>> def deal(rank):
        ...     cards = [rl.tensor([7]), rl.tensor([8])] if rank == 0 else None
        ...     mine = rl.zeros(1, dtype=rl.int64)
        ...     dist.scatter(mine, cards, src=0)
        ...     return mine
        >>> dist.simulate(2, deal)
        [tensor([7]), tensor([8])]
    """
    root = root_of("scatter", group, src, group_src, 0)
    given = _list_at("scatter", "scatter_list", scatter_list, tensor, group, root, "source")
    outputs = [tensor]
    return issue("scatter", group, async_op, SCATTER, given, outputs, root=root)


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Puts the sum (or mean, product, ...) of all ranks' r-th tensors into the tensor of rank r.

    Arguments:
        output: where this rank's part of the result goes.
        input_list: a tensor per rank, each of the shape of `output`.
        op: how the tensors become one, a `ReduceOp`.
        group: the process group; None for the default one.
        async_op: return at once, with a `Work` to wait for.

    Returns:
        Work with `async_op`, else None.

    Example:
        >>> from rushlight import distributed as dist
        >>> def least(rank):
        ...     mine = rl.zeros(1)
        ...     given = [rl.tensor([rank + 1.0]), rl.tensor([rank + 10.0])]
        ...     dist.reduce_scatter(mine, given, op=dist.ReduceOp.MIN)
        ...     return mine
        >>> dist.simulate(2, least)
        [tensor([1.]), tensor([10.])]
    """
    _check_list("reduce_scatter", "input_list", input_list, output, group)
    number, inputs = reduction("reduce_scatter", op, list(input_list), in_place=False)
    return issue("reduce_scatter", group, async_op, REDUCE_SCATTER, inputs, [output], reduce=number)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Adds the tensors of all ranks, and gives each rank its part of the sum, by position.

    Arguments:
        output: where this rank's part of the result goes.
        input: what this rank gives; as many times the elements of `output` as there are ranks.
        op: how the tensors become one, a `ReduceOp`; the sum, unless another is named.
        group: the process group; None for the default one.
        async_op: return at once, with a `Work` to wait for.

    Returns:
        Work with `async_op`, else None.

    Example:
        >>> from rushlight import distributed as dist
        >>> def mean(rank):
        ...     mine = rl.zeros(2)
        ...     dist.reduce_scatter_single(mine, rl.arange(4.0) + rank, op=dist.ReduceOp.AVG)
        ...     return mine
        >>> dist.simulate(2, mean)
        [tensor([0.5000, 1.5000]), tensor([2.5000, 3.5000])]
        >>> dist.reduce_scatter_single is dist.reduce_scatter_tensor
        True
    """
    number, inputs = reduction("reduce_scatter_tensor", op, [input], in_place=False)
    return issue(
        "reduce_scatter_tensor", group, async_op, REDUCE_SCATTER, inputs, [output], reduce=number
    )


reduce_scatter_single = _reduce_scatter_base = reduce_scatter_tensor


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Sends the r-th tensor of the input list to rank r, whose output list has it where this rank
    stands. The tensors may have different sizes.

    Arguments:
        output_tensor_list: a tensor per rank, with room for what that rank sends.
        input_tensor_list: a tensor per rank: what goes there.
        group: the process group; None for the default one.
        async_op: return at once, with a `Work` to wait for.

    Returns:
        Work with `async_op`, else None.

    Example:
        >>> from rushlight import distributed as dist
        >>> def swap(rank):
        ...     given = [rl.tensor([10 * rank]), rl.tensor([10 * rank + 1])]
        ...     taken = [rl.zeros(1, dtype=rl.int64) for _ in range(2)]
        ...     dist.all_to_all(taken, given, async_op=True).wait()
        ...     return taken
        >>> dist.simulate(2, swap)
        [[tensor([0]), tensor([10])], [tensor([1]), tensor([11])]]
    """
    counts = ([t.numel() for t in input_tensor_list], [t.numel() for t in output_tensor_list])
    inputs, outputs = list(input_tensor_list), list(output_tensor_list)
    return issue("all_to_all", group, async_op, ALL_TO_ALL, inputs, outputs, counts=counts)


def _counts(name, tensor, sizes, group):
    """How many elements go to each rank, of sizes along dim 0."""
    ranks = max(1, get_world_size(group))
    rows = tensor.shape[0] if tensor.dim() else 1
    if not sizes:
        if rows % ranks != 0:
            raise DistArgumentError(
                f"all_to_all_single: {name} has {rows} rows, which {ranks} ranks cannot share "
                "equally; pass split sizes"
            )
        sizes = [rows // ranks] * ranks
    sizes = [int(size) for size in sizes]
    if len(sizes) != ranks or sum(sizes) != rows:
        raise DistArgumentError(
            f"all_to_all_single: the split sizes of {name} must be {ranks} with the sum {rows}, "
            f"got {sizes}"
        )
    width = tensor.numel() // rows if rows else 0
    return [size * width for size in sizes]


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None, group: Any = None, async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Cuts the input along dim 0, sends the r-th part to rank r, and puts the parts that come one
    behind the other. Without sizes all parts are equal.

    Arguments:
        output: where the parts go that come.
        input: what this rank sends.
        output_split_sizes: how many rows of `output` come from each rank.
        input_split_sizes: how many rows of `input` go to each rank.
        group: the process group; None for the default one.
        async_op: return at once, with a `Work` to wait for.

    Returns:
        Work with `async_op`, else None.

    Example:
        >>> from rushlight import distributed as dist
        >>> def swap(rank):
        ...     given = rl.arange(3.0) + 10 * rank
        ...     taken = rl.zeros(2 if rank == 0 else 4)
        ...     sizes = [1, 1] if rank == 0 else [2, 2]
        ...     dist.all_to_all_single(taken, given, sizes, input_split_sizes=[1, 2])
        ...     return taken
        >>> dist.simulate(2, swap)
        [tensor([ 0., 10.]), tensor([ 1.,  2., 11., 12.])]
    """
    counts = (
        _counts("the input", input, input_split_sizes, group),
        _counts("the output", output, output_split_sizes, group),
    )
    return issue("all_to_all_single", group, async_op, ALL_TO_ALL, [input], [output], counts=counts)


def barrier(
    group: Any = None, async_op: bool = False, device_ids: Any = None,
    timeout: timedelta | None = None,
) -> Work | None:  # fmt: skip
    """Waits until all ranks have come here. Between GPUs it also waits for what the current
    stream has to do by now.

    Arguments:
        group: the process group; None for the default one.
        async_op: return at once, with a `Work` to wait for.
        device_ids: a list with the number of the GPU; means nothing to groups that serve no GPUs.
        timeout: how long to wait; None for the group's own timeout.

    Returns:
        Work with `async_op`, else None.

    Example:
        >>> from datetime import timedelta
        >>> from rushlight import distributed as dist
        >>> seen = []
        >>> def meet(rank):
        ...     seen.append(rank)
        ...     dist.barrier(timeout=timedelta(seconds=60))
        ...     return len(seen)
        >>> dist.simulate(3, meet)
        [3, 3, 3]
    """
    gpu = None
    if device_ids is not None:
        if not isinstance(device_ids, (list, tuple)) or len(device_ids) != 1:
            raise TypeError(f"barrier: device_ids must be a list of one number, got {device_ids!r}")
        gpu = int(device_ids[0])
    return issue("barrier", group, async_op, BARRIER, timeout=timeout, gpu=gpu)


def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """A barrier with a timeout of its own; its error names the ranks that have not come.

    Arguments:
        group: the process group; None for the default one.
        timeout: how long to wait; None for the group's own timeout.
        wait_all_ranks: accepted as PyTorch has it; the error names all missing ranks either way.

    Example:
        >>> from datetime import timedelta
        >>> from rushlight import distributed as dist
        >>> def meet(rank):
        ...     dist.monitored_barrier(timeout=timedelta(seconds=60))
        ...     return "all are here"
        >>> dist.simulate(2, meet)
        ['all are here', 'all are here']
    """
    issue("monitored_barrier", group, False, BARRIER, timeout=timeout)


class _Coalescing:
    """What _coalescing_manager gives: works to wait for."""

    def __init__(self) -> None:
        self.works: list[Any] = []

    def append(self, work: Any) -> None:
        """One more to wait for."""
        if work is not None:
            self.works.append(work)

    def wait(self) -> None:
        """Waits for all of them."""
        for work in self.works:
            work.wait()


@contextmanager
def _coalescing_manager(
    group: Any = None, device: Any = None, async_ops: bool = False
) -> Iterator[_Coalescing]:
    """Collectives inside are carried out as they come: they need no bracket around them."""
    manager = _Coalescing()
    yield manager
    if not async_ops:
        manager.wait()
