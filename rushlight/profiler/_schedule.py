"""When to record: by step."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable

__all__ = ["ProfilerAction", "ProfilerActivity", "schedule"]


class ProfilerActivity(enum.Enum):
    """Kinds of events: `profile(activities=...)` takes those to record.

    supported_activities() has those that this machine can record: CPU, and CUDA with a GPU.

    Example:
        >>> with rl.profiler.profile(activities=[rl.profiler.ProfilerActivity.CPU]) as prof:
        ...     x = rl.ones(2) + 1
        >>> len(prof.events()) > 0
        True
    """

    CPU = 0
    XPU = 1
    CUDA = 2
    HPU = 3
    MTIA = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What a profiler does during a step: a schedule returns one of these.

    A schedule does not return DEVICE_STOPPED: PyTorch's profiler uses it itself, and this one never
    does.

    Example:
        >>> def every_other(step):
        ...     actions = rl.profiler.ProfilerAction
        ...     return actions.RECORD_AND_SAVE if step % 2 else actions.NONE
        >>> [every_other(step).name for step in range(3)]
        ['NONE', 'RECORD_AND_SAVE', 'NONE']
    """

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4


def schedule(*, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0,
             skip_first_wait: int = 0) -> Callable:  # fmt: skip
    """The action of each step: skip_first, then cycles of wait, warmup and active steps.

    Arguments:
        wait: steps that are passed over.
        warmup: steps that run with the profiler but are thrown away.
        active: steps that are recorded.
        repeat: how many cycles; 0 goes on.
        skip_first: steps before the first cycle.
        skip_first_wait: 1 leaves out the first wait.

    Example:
        >>> action = rl.profiler.schedule(wait=1, warmup=1, active=1, repeat=1)
        >>> [action(step).name for step in range(4)]
        ['NONE', 'WARMUP', 'RECORD_AND_SAVE', 'NONE']
    """

    given = {"wait": wait, "warmup": warmup, "active": active, "repeat": repeat,
             "skip_first": skip_first}  # fmt: skip
    for name, value in given.items():
        if value < (name == "active"):
            least = "at least 1" if name == "active" else "at least 0"
            raise ValueError(f"schedule: {name} must be {least}, got {value}")
    if warmup == 0:
        warnings.warn("schedule: warmup is 0, the first recorded step may be slower than the "
                      "others", stacklevel=2)  # fmt: skip

    def action(step):
        if step < 0:
            raise ValueError(f"schedule: the step must be at least 0, got {step}")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        pause = wait
        length = wait + warmup + active
        if skip_first_wait and step < warmup + active:
            pause, length = 0, warmup + active
        elif skip_first_wait:
            step += wait
        if repeat > 0 and step // length >= repeat:
            return ProfilerAction.NONE
        at = step % length
        if at < pause:
            return ProfilerAction.NONE
        if at < pause + warmup:
            return ProfilerAction.WARMUP
        last = at == length - 1
        return ProfilerAction.RECORD_AND_SAVE if last else ProfilerAction.RECORD

    return action
