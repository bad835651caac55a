"""Process groups that users write: how Backend.register_backend's functions make them, and how
collectives reach their methods (docs/distributed.md)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.distributed import _collective_options as options
from rushlight.distributed._backends import Backend
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
    SEND,
    ProcessGroup,
    Work,
)
from rushlight.distributed._reductions import ReduceOp
from rushlight.distributed._stores import PrefixStore
from rushlight.futures import Future


def make_user_groups(
    users: dict[str, str], store: Any, ranks: list[int], rank: int, timeout: timedelta,
    group_name: str, pg_options: Any,
) -> dict[str, ProcessGroup]:  # fmt: skip
    """The users' groups by kind of device: one per backend."""
    made: dict[str, ProcessGroup] = {}
    for name in dict.fromkeys(users.values()):
        create, extended = Backend._plugins[name.upper()]
        own = PrefixStore(f"backend/{name}", store)
        place = ranks.index(rank)
        if extended:
            told = options._DistributedBackendOptions(
                own, place, len(ranks), timeout, group_name, list(ranks)
            )
            made[name] = create(told, pg_options)
        else:
            made[name] = create(own, place, len(ranks), timeout)
        if not isinstance(made[name], ProcessGroup):
            raise TypeError(
                f'init_process_group: the function registered for the backend "{name}" must return '
                f"an instance of a subclass of distributed.ProcessGroup, got {made[name]!r}"
            )
        if made[name]._core is not None:
            raise ValueError(
                f'init_process_group: the function registered for the backend "{name}" returned a '
                "group that is in use already; it makes a new one in each call"
            )
    return {kind: made[name] for kind, name in users.items()}


class NoEngines:
    """In the place of the core's group, where users' groups carry everything."""

    def __init__(self, name: str) -> None:
        self.group_name = name

    def _ignored(self, *told: Any) -> None:
        """Verdicts about ranks, and limits of time, are the user's group's own."""

    _shut_down = _say_raised = _fail = _set_timeout = _ignored

    def _recorded(self) -> list[Any]:
        return []


class DoneWork(Work):
    """A collective that was over when it was issued; of a recv, also who sent."""

    def __init__(self, outputs: list[Tensor] | None = None, source: int = -1) -> None:
        super().__init__()
        self._outputs, self._source = outputs or [], source

    def wait(self, timeout: timedelta | None = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def exception(self) -> BaseException | None:
        return None

    def result(self) -> list[Tensor]:
        return self._outputs

    def source_rank(self) -> int:
        return self._source


class _FutureWork(Work):
    """A Work over a Future."""

    def __init__(self, future: Future) -> None:
        super().__init__()
        self._future = future

    def wait(self, timeout: timedelta | None = None) -> bool:
        if timeout is not None and timeout > timedelta(0):
            self._future._event.wait(timeout.total_seconds())
            if not self._future.done():
                raise TimeoutError(f"Work.wait: not done after {timeout}")
        self._future.wait()
        return True

    def is_completed(self) -> bool:
        return self._future.done()

    def is_success(self) -> bool:
        return self._future.done() and self._future._outcome()[1] is None

    def exception(self) -> BaseException | None:
        return self._future._outcome()[1] if self._future.done() else None

    def result(self) -> list[Tensor]:
        value = self._future.value()
        return [value] if isinstance(value, Tensor) else value

    def get_future(self) -> Future:
        return self._future


def _create_work_from_future(future: Future) -> Work:
    """A Work that is done when the Future is, with its result or its error."""
    if not isinstance(future, Future):
        raise TypeError(f"_create_work_from_future: expects a futures.Future, got {future!r}")
    return _FutureWork(future)


def _method(group: ProcessGroup, what: str, *names: str) -> Callable[..., Any]:
    """The method of a user's group that carries a collective out, by the first name it has."""
    for name in names:
        # What ProcessGroup itself has ends here again.
        if getattr(type(group), name, None) is not getattr(ProcessGroup, name, None):
            return getattr(group, name)
    wanted = " or ".join(f"`{name}`" for name in names)
    raise NotImplementedError(
        f'{what}: {type(group).__name__}, the backend "{group.name()}", has no method {wanted}'
    )


class _Call:
    """A collective as our own engines take it, to be told to a user's group."""

    def __init__(
        self, group: ProcessGroup, what: str, inputs: list[Tensor], outputs: list[Tensor],
        reduce: int, root: int, tag: int, timeout: timedelta | None, async_op: bool,
        counts: tuple[list[int], list[int]],
    ) -> None:  # fmt: skip
        self.group, self.what, self.inputs, self.outputs = group, what, inputs, outputs
        self.operator = ReduceOp(reduce)
        self.root, self.tag, self.counts = root, tag, counts
        self.always: dict[str, Any] = {
            "timeout": options.NO_TIMEOUT if timeout is None else timeout, "asyncOp": async_op
        }  # fmt: skip
        self.is_single = what.endswith(("_tensor", "_single"))  # one tensor for all ranks' parts

    def send_to(self, *names: str) -> Callable[..., Any]:
        return _method(self.group, self.what, *names)


def _all_reduce(c: _Call) -> Any:
    if len(c.inputs) == 1:
        told = options.AllreduceOptions(c.operator, **c.always)
        return c.send_to("allreduce")(c.inputs, told)
    several = options.AllreduceCoalescedOptions(c.operator, **c.always)
    return c.send_to("allreduce_coalesced")(c.inputs, several)


def _all_gather(c: _Call) -> Any:
    told = options.AllgatherOptions(**c.always)
    if c.is_single:
        send = c.send_to("all_gather_single", "_allgather_base")
        return send(c.outputs[0], c.inputs[0], told)
    return c.send_to("allgather")([c.outputs], c.inputs, told)


def _reduce_scatter(c: _Call) -> Any:
    told = options.ReduceScatterOptions(c.operator, **c.always)
    if c.is_single:
        send = c.send_to("reduce_scatter_single", "_reduce_scatter_base")
        return send(c.outputs[0], c.inputs[0], told)
    return c.send_to("reduce_scatter")(c.outputs, [c.inputs], told)


def _rows(tensor: Tensor, counts: list[int]) -> list[int]:
    """Sizes along dim 0 of numbers of elements."""
    rows = tensor.shape[0] if tensor.dim() else 1
    width = tensor.numel() // rows if rows else 0
    return [count // width if width else 0 for count in counts]


def _all_to_all(c: _Call) -> Any:
    told = options.AllToAllOptions(**c.always)
    if not c.is_single:
        return c.send_to("alltoall")(c.outputs, c.inputs, told)
    out, given = c.outputs[0], c.inputs[0]
    parts = _rows(out, c.counts[1]), _rows(given, c.counts[0])
    return c.send_to("all_to_all_single", "alltoall_base")(out, given, *parts, told)


def _rooted(name: str, kind: Any) -> Callable[[_Call], Any]:
    """gather and scatter: the list of all parts is given on one rank only."""

    def call(c: _Call) -> Any:
        told = kind(c.root, **c.always)
        outputs = [c.outputs] if name == "gather" and c.outputs else c.outputs
        inputs = [c.inputs] if name == "scatter" and c.inputs else c.inputs
        return c.send_to(name)(outputs, inputs, told)

    return call


def _receive(c: _Call) -> Any:
    if c.root < 0:
        return c.send_to("recv_anysource")(c.outputs, c.tag)
    return c.send_to("recv")(c.outputs, c.root, c.tag)


_CALLS: dict[int, Callable[[_Call], Any]] = {
    ALL_REDUCE: _all_reduce,
    BROADCAST: lambda c: c.send_to("broadcast")(
        c.inputs, options.BroadcastOptions(c.root, **c.always)
    ),
    ALL_GATHER: _all_gather,
    BARRIER: lambda c: c.send_to("barrier")(
        options.BarrierOptions(device=c.group._device(), **c.always)
    ),
    REDUCE: lambda c: c.send_to("reduce")(
        c.inputs, options.ReduceOptions(c.root, reduceOp=c.operator, **c.always)
    ),
    GATHER: _rooted("gather", options.GatherOptions),
    SCATTER: _rooted("scatter", options.ScatterOptions),
    REDUCE_SCATTER: _reduce_scatter,
    ALL_TO_ALL: _all_to_all,
    SEND: lambda c: c.send_to("send")(c.inputs, c.root, c.tag),
    RECV: _receive,
}


def issue_to_user(
    what: str, group: ProcessGroup, ranks: list[int], async_op: bool, kind: int,
    inputs: list[Tensor] | None, outputs: list[Tensor] | None, reduce: int, root: int, tag: int,
    counts: tuple[list[int], list[int]], timeout: timedelta | None,
) -> Any:  # fmt: skip
    """One collective or message through a user's group: its Work with async_op. Of a recv without
    it, a Work that knows who sent."""
    for tensor in (inputs or []) + (outputs or []):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{what}: expected a tensor, got {type(tensor).__name__}")
    _C._frozen_end_recording("a collective of a user's process group")
    call = _Call(
        group, what, inputs or [], outputs or [], reduce, root, tag, timeout, async_op, counts
    )
    work = _CALLS[kind](call)
    if work is None:  # it is done
        work = DoneWork(outputs)
    if not hasattr(work, "wait"):
        raise TypeError(
            f"{what}: {type(group).__name__} must return a distributed.Work, or None for what is "
            f"done already, got {work!r}"
        )
    if async_op:
        return work
    work.wait()
    if kind == RECV:
        return DoneWork(outputs, ranks[root if root >= 0 else work._source_rank()])
    return None
