"""Join: ranks that run out of inputs go on taking part in the others' collectives.

Every rank that still computes says so before each step, in an all_reduce that counts. A rank whose
inputs are over answers that count with a zero, and then does what the others' step needs of it
(a JoinHook's main_hook), until the count is zero.
"""

from __future__ import annotations

import abc
import warnings
from typing import Any, NamedTuple

import rushlight
from rushlight import distributed as dist

__all__ = ["Join", "JoinHook", "Joinable"]

_STEPS_THAT_WARN = 1000


class JoinHook:
    """What a rank without inputs does for the others."""

    def main_hook(self) -> None:
        """For each step of the others."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Once all ranks are without inputs; ``is_last_joiner`` on those that had the most."""


class _JoinConfig(NamedTuple):
    enable: bool = False
    throw_on_early_termination: bool = False
    is_first_joinable: bool = False


class Joinable(abc.ABC):
    """What may take part in Join. It calls ``Join.notify_join_context(self)`` before each step's
    first collective."""

    def __init__(self) -> None:
        super().__init__()
        self._join_config = _JoinConfig()

    @abc.abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """The hook, made from Join's keyword arguments."""

    @property
    @abc.abstractmethod
    def join_device(self) -> rushlight.device:
        """Where the count is kept."""

    @property
    @abc.abstractmethod
    def join_process_group(self) -> dist.ProcessGroup:
        """The group of the collectives."""


class Join:
    """``with Join([model]):`` around a loop whose ranks have different numbers of inputs."""

    def __init__(
        self,
        joinables: list[Any],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError("Join: there is nothing to join")
        for joinable in joinables:
            if not isinstance(getattr(joinable, "_join_config", None), _JoinConfig):
                raise TypeError(
                    f"Join: {joinable!r} is not a Joinable, or did not call its __init__"
                )
        if any(j.join_process_group is not joinables[0].join_process_group for j in joinables):
            raise ValueError("Join: all must be of one process group")
        self._joinables = joinables
        self._enable = enable
        self._throws = throw_on_early_termination
        self._group = joinables[0].join_process_group
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        for i, joinable in enumerate(joinables):
            joinable._join_config = _JoinConfig(enable, throw_on_early_termination, i == 0)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: Any) -> None:
        if not self._enable:
            return
        try:
            if error[0] is None:
                self._shadow()
        finally:
            for joinable in self._joinables:
                joinable._join_config = _JoinConfig()

    def _shadow(self) -> None:
        steps = 0
        while _count(self._group, 0) > 0:
            if self._throws:
                _count(self._group, 1)
                raise RuntimeError(f"Join: rank {dist.get_rank(self._group)} has no inputs left")
            if steps == _STEPS_THAT_WARN:
                warnings.warn(
                    f"Join: rank {dist.get_rank(self._group)} has been without inputs for "
                    f"{steps} steps of the others",
                    stacklevel=3,
                )
            for hook in self._hooks:
                hook.main_hook()
            steps += 1
        for hook in self._hooks:
            hook.post_hook(steps == 0)

    @staticmethod
    def notify_join_context(joinable: Any) -> None:
        """Says that this rank begins a step: for a Joinable, before its first collective."""
        config = joinable._join_config
        if not config.is_first_joinable or not config.enable:
            return
        group = joinable.join_process_group
        joinable._joined_active = _count(group, 1)
        if config.throw_on_early_termination:
            someone_left = joinable._joined_active < dist.get_world_size(group)
            if someone_left and _count(group, 0) > 0:
                raise RuntimeError(
                    "Join: a rank has no inputs left, and throw_on_early_termination is set"
                )


def _count(group: Any, mine: int) -> int:
    """The sum of all ranks' numbers."""
    total = rushlight.tensor([mine]).to(group._device())
    dist.all_reduce(total, group=group)
    return int(total)
