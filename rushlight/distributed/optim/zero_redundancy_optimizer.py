"""ZeroRedundancyOptimizer: each rank keeps the optimiser's state of its share of the parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import distributed as dist
from rushlight._C import Tensor
from rushlight.distributed._world import world
from rushlight.distributed.algorithms.join import Join, Joinable, JoinHook, _JoinConfig
from rushlight.optim import Optimizer

__all__ = ["ZeroRedundancyOptimizer"]


class _StepsOfOthers(JoinHook):
    """A ZeroRedundancyOptimizer on a rank without inputs: its parameters still need their steps."""

    def __init__(self, optimizer: ZeroRedundancyOptimizer) -> None:
        self._optimizer = optimizer

    def main_hook(self) -> None:
        self._optimizer.step()


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """Another optimiser, whose state is dealt out to the ranks of a group.

    Every rank has all parameters and gradients (of DistributedDataParallel, say), steps those that
    are its own, and sends them to the others. The parameters are dealt whole, the largest first,
    each to the rank with the least so far.
    """

    def __init__(
        self,
        params: Any,
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise NotImplementedError(
                "ZeroRedundancyOptimizer: overlap_with_ddp is not there; leave it at False"
            )
        self.process_group = world.member(process_group, "ZeroRedundancyOptimizer").group
        self._size, self._rank = self.process_group.size(), self.process_group.rank()
        self._owners: dict[int, int] = {}  # id of a parameter: the rank that steps it
        self._loads = [0] * self._size
        self._optimizer_class = optimizer_class
        self.optim: Any = None
        self._consolidated: list[Any] | None = None
        Optimizer.__init__(self, params, defaults)
        self._join_config = _JoinConfig()
        self.optim = optimizer_class(
            [self._own_part(group) for group in self.param_groups], **defaults
        )
        for mine, theirs in zip(self.param_groups, self.optim.param_groups, strict=True):
            for key, value in theirs.items():  # the defaults of the optimiser's class
                mine.setdefault(key, value)
        self.state = self.optim.state

    def _own_part(self, group: dict[str, Any]) -> dict[str, Any]:
        own = [p for p in group["params"] if self._owners[id(p)] == self._rank]
        return {**group, "params": own}

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters, and deals them out."""
        super().add_param_group(param_group)
        added = self.param_groups[-1]
        for p in sorted(added["params"], key=lambda p: p.numel(), reverse=True):
            owner = self._loads.index(min(self._loads))
            self._owners[id(p)] = owner
            self._loads[owner] += p.numel()
        if self.optim is not None:
            self.optim.add_param_group(self._own_part(added))
            for key, value in self.optim.param_groups[-1].items():
                added.setdefault(key, value)

    def _hand_down_options(self) -> None:
        """Schedulers change this optimiser's groups."""
        for mine, theirs in zip(self.param_groups, self.optim.param_groups, strict=True):
            theirs.update({key: value for key, value in mine.items() if key != "params"})

    def step(  # type: ignore[override]
        self, closure: Callable[[], Any] | None = None, **kwargs: Any
    ) -> Tensor | float | None:
        """Steps the own parameters, and exchanges all of them."""
        Join.notify_join_context(self)
        self._hand_down_options()
        loss = self.optim.step(**kwargs) if closure is None else self.optim.step(closure, **kwargs)
        self._exchange()
        return loss

    def _exchange(self) -> None:
        if self._size == 1:
            return
        parts: dict[Any, list[Any]] = {}
        for group in self.param_groups:
            for p in group["params"]:
                parts.setdefault((self._owners[id(p)], p.dtype), []).append(p)
        sent: list[tuple[int, list[Any], Any, Any]] = []
        with rushlight.no_grad():
            for (owner, _), params in parts.items():
                flat = rushlight.cat([p.reshape(-1) for p in params])
                group = self.process_group
                work = dist.broadcast(flat, group=group, async_op=True, group_src=owner)
                sent.append((owner, params, flat, work))
            for owner, params, flat, work in sent:
                work.wait()
                if owner == self._rank:
                    continue
                for p, part in zip(params, flat.split([p.numel() for p in params]), strict=True):
                    p.copy_(part.view(p.shape))

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What Join calls on a rank without inputs: ``with Join([model, optimizer]):``."""
        return _StepsOfOthers(self)

    @property
    def join_device(self) -> rushlight.device:
        """Where the parameters are."""
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self) -> dist.ProcessGroup:
        """The group of the optimiser."""
        return self.process_group

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Collects the states of all ranks on one, which may then call state_dict()."""
        self._hand_down_options()
        here = self._rank == dist.get_group_rank(self.process_group, to)
        gathered: list[Any] | None = [None] * self._size if here else None
        dist.gather_object(self.optim.state_dict(), gathered, to, self.process_group)
        self._consolidated = gathered

    def _numbers(self) -> list[list[int]]:
        """By rank: the numbers of its parameters among all, in its own optimiser's order."""
        numbers: list[list[int]] = [[] for _ in range(self._size)]
        for i, p in enumerate(p for group in self.param_groups for p in group["params"]):
            numbers[self._owners[id(p)]].append(i)
        return numbers

    def state_dict(self) -> dict[str, Any]:
        """The state of all parameters, as the optimiser in one process would give it."""
        if self._consolidated is None:
            raise RuntimeError(
                f"ZeroRedundancyOptimizer: rank {self._rank} has its own part of the state only; "
                "call consolidate_state_dict(to=...) on all ranks first"
            )
        whole = super().state_dict()
        whole["state"] = {}
        for local, numbers in zip(self._consolidated, self._numbers(), strict=True):
            for i, state in local["state"].items():
                whole["state"][numbers[i]] = state
        whole["state"] = dict(sorted(whole["state"].items()))
        return whole

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what state_dict() of this, or of the optimiser in one process, gave."""
        own = {n: i for i, n in enumerate(self._numbers()[self._rank])}
        self._check_saved_groups(state_dict["param_groups"])
        local = self.optim.state_dict()
        local["state"] = {own[n]: s for n, s in state_dict["state"].items() if n in own}
        for mine, saved in zip(local["param_groups"], state_dict["param_groups"], strict=True):
            mine.update({key: value for key, value in saved.items() if key != "params"})
        self.optim.load_state_dict(local)
        self.state = self.optim.state
        for mine, saved in zip(self.param_groups, state_dict["param_groups"], strict=True):
            mine.update({key: value for key, value in saved.items() if key != "params"})
        self._consolidated = None
