"""Messages: what one rank sends to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight._C import Tensor
from rushlight.distributed._collectives import issue, root_of
from rushlight.distributed._groups import RECV, SEND, Work
from rushlight.distributed._process_groups import _is_outside, get_rank
from rushlight.distributed._world import world

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]

_ANY = -1


def _check(tensor, tag):
    _check_tensor(tensor)
    if not isinstance(tag, int) or tag < 0:
        raise ValueError(f"a message's tag must be an integer that is not negative, got {tag!r}")


def _check_tensor(tensor):
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `tensor` to be of type Tensor, got "
            f"{type(tensor).__name__}."
        )


def _send(what, tensor, dst, group, tag, group_dst, async_op):
    _check(tensor, tag)
    peer = root_of(what, group, dst, group_dst)
    if not _is_outside(group) and peer == get_rank(group):
        raise ValueError(
            "Invalid destination rank: destination rank should not be the same as the rank of the "
            "current process."
        )
    return issue(what, group, async_op, SEND, [tensor], None, root=peer, tag=tag)


def _receive(what, tensor, src, group, tag, group_src, async_op):
    _check(tensor, tag)
    if src is None and group_src is None:
        peer = _ANY
    else:
        peer = root_of(what, group, src, group_src)
        if not _is_outside(group) and peer == get_rank(group):
            raise ValueError(f"{what}: a rank cannot receive from itself, rank {peer} of the group")
    return issue(what, group, async_op, RECV, None, [tensor], root=peer, tag=tag)


def send(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0,
    group_dst: int | None = None,
) -> None:  # fmt: skip
    """Sends a tensor to another rank. Returns when the tensor may be changed again, which may be
    before it arrived.

    Arguments:
        tensor: what is sent.
        dst: the rank that receives it, counted in the default group.
        group: the process group; None for the default one.
        tag: a number that is not negative; only a recv with the same one takes the
            message. Between GPUs tags mean nothing: messages arrive in the order they are sent.
        group_dst: the receiver counted in `group`, instead of `dst`.

    Example:
        >>> from rushlight import distributed as dist
        >>> def pass_on(rank):
        ...     x = rl.tensor([3.0, 4.0]) if rank == 0 else rl.zeros(2)
        ...     if rank == 0:
        ...         dist.send(x, dst=1, tag=5)
        ...     else:
        ...         dist.recv(x, src=0, tag=5)
        ...     return x
        >>> dist.simulate(2, pass_on)[1]
        tensor([3., 4.])
    """
    _send("send", tensor, dst, group, tag, group_dst, False)


def recv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0,
    group_src: int | None = None,
) -> int:  # fmt: skip
    """Receives a tensor of this size and dtype from a rank, or from whichever sends one, and
    returns who sent it; -1 outside of the group.

    Arguments:
        tensor: where the message goes.
        src: the sender, counted in the default group; without `src` and `group_src`, any rank,
            which only groups of CPUs allow.
        group: the process group; None for the default one.
        tag: a number that is not negative; only a message with the same one is taken.
            Between GPUs tags mean nothing: messages arrive in the order they are sent.
        group_src: the sender counted in `group`, instead of `src`.

    Returns:
        int: the rank that sent, counted in the default group.

    Example:
        >>> from rushlight import distributed as dist
        >>> def pass_on(rank):
        ...     if rank == 1:
        ...         return dist.send(rl.ones(2), dst=0)
        ...     x = rl.zeros(2)
        ...     return dist.recv(x, src=None), x
        >>> dist.simulate(2, pass_on)
        [(1, tensor([1., 1.])), None]
    """
    work = _receive("recv", tensor, src, group, tag, group_src, False)
    return -1 if work is None else work.source_rank()


def isend(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Begins to send a tensor, which must not change until the Work is done.

    Arguments:
        tensor: what is sent.
        dst: the rank that receives it, counted in the default group.
        group: the process group; None for the default one.
        tag: a number that is not negative; only a recv with the same one takes the
            message. Between GPUs tags mean nothing: messages arrive in the order they are sent.
        group_dst: the receiver counted in `group`, instead of `dst`.

    Returns:
        Work: to wait for; None outside of the group.

    Example:
        >>> from rushlight import distributed as dist
        >>> def swap(rank):
        ...     theirs = rl.zeros(1)
        ...     work = dist.isend(rl.tensor([rank + 1.0]), dst=1 - rank)
        ...     dist.recv(theirs, src=1 - rank)
        ...     work.wait()
        ...     return theirs
        >>> dist.simulate(2, swap)
        [tensor([2.]), tensor([1.])]
    """
    return _send("isend", tensor, dst, group, tag, group_dst, True)


def irecv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0,
    group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Begins to receive a tensor, which must not be used until the Work is done.

    Arguments:
        tensor: where the message goes.
        src: the sender, counted in the default group; without `src` and `group_src`, any rank,
            which only groups of CPUs allow.
        group: the process group; None for the default one.
        tag: a number that is not negative; only a message with the same one is taken.
            Between GPUs tags mean nothing: messages arrive in the order they are sent.
        group_src: the sender counted in `group`, instead of `src`.

    Returns:
        Work: to wait for; None outside of the group.

    Example:
        >>> from rushlight import distributed as dist
        >>> def swap(rank):
        ...     theirs = rl.zeros(1)
        ...     work = dist.irecv(theirs, src=1 - rank)
        ...     dist.send(rl.tensor([rank + 1.0]), dst=1 - rank)
        ...     work.wait()
        ...     return theirs, work.source_rank()
        >>> dist.simulate(2, swap)
        [(tensor([2.]), 1), (tensor([1.]), 0)]
    """
    return _receive("irecv", tensor, src, group, tag, group_src, True)


class P2POp:
    """A message for batch_isend_irecv.

    Arguments:
        op: `isend` or `irecv`.
        tensor: what is sent, or where the message goes.
        peer: the other rank, counted in the default group.
        group: the process group; None for the default one.
        tag: a number that is not negative; only messages of the same one meet. Between
            GPUs tags mean nothing.
        group_peer: the other rank counted in `group`, instead of `peer`.

    Example:
        >>> from rushlight import distributed as dist
        >>> dist.simulate(2, lambda rank: dist.P2POp(dist.isend, rl.ones(1), peer=1 - rank, tag=3))
        [P2POp(isend group_peer=1, tag=3), P2POp(isend group_peer=0, tag=3)]
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Tensor,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be ``distributed.isend`` or "
                "``distributed.irecv``."
            )
        _check_tensor(tensor)
        self.op = op
        self.tensor = tensor
        self.group = group
        self.tag = tag
        self.group_peer = root_of("P2POp", group, peer, group_peer)
        self.peer = peer

    def __repr__(self) -> str:
        return f"P2POp({self.op.__name__} group_peer={self.group_peer}, tag={self.tag})"


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begins several messages at once; returns a Work for each. On GPUs they are one operation, and
    where that is the first of a group, all ranks of the group take part in it.

    Arguments:
        p2p_op_list: the messages, each a `P2POp`, all of one group.

    Returns:
        list of Work: one per message.

    Example:
        >>> from rushlight import distributed as dist
        >>> def around(rank):
        ...     mine, theirs = rl.tensor([rank]), rl.tensor([-1])
        ...     right, left = (rank + 1) % 3, (rank - 1) % 3
        ...     ops = [dist.P2POp(dist.isend, mine, right), dist.P2POp(dist.irecv, theirs, left)]
        ...     for work in dist.batch_isend_irecv(ops):
        ...         work.wait()
        ...     return theirs.item()
        >>> dist.simulate(3, around)
        [2, 0, 1]
    """
    if not isinstance(p2p_op_list, list) or not all(isinstance(p, P2POp) for p in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to be a P2POp.")
    if not p2p_op_list:
        raise ValueError("batch_isend_irecv: the list is empty")
    if any(p.group is not p2p_op_list[0].group for p in p2p_op_list):
        raise ValueError("batch_isend_irecv: all operations must be of one group")
    group = p2p_op_list[0].group
    on_gpus = all(p.tensor.is_cuda for p in p2p_op_list) and not _is_outside(group)
    member = world.member(group, "batch_isend_irecv") if on_gpus else None
    if member is not None and "cuda" not in member.group._users:
        messages = [
            (SEND if p.op is isend else RECV, p.tensor, p.group_peer, p.tag) for p in p2p_op_list
        ]
        return [Work(w, member.ranks) for w in member.group._core._batch(messages)]
    works = []
    for p in p2p_op_list:
        side = {"group_dst" if p.op is isend else "group_src": p.group_peer}
        works.append(p.op(p.tensor, group=p.group, tag=p.tag, **side))
    return [work for work in works if work is not None]
