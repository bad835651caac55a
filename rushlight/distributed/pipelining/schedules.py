"""Schedules by their names."""

from __future__ import annotations

from rushlight._names.missing import fill
from rushlight.distributed.pipelining import _schedules
from rushlight.distributed.pipelining._schedules import *  # noqa: F403

__all__ = ["get_schedule_class", *_schedules.__all__]

_NAMED = {name.removeprefix("Schedule"): getattr(_schedules, name) for name in _schedules.__all__}


def get_schedule_class(schedule_name: str) -> type:
    """The schedule of a name, in letters of any case.

    Example:
        >>> from rushlight.distributed.pipelining.schedules import get_schedule_class
        >>> get_schedule_class("gpipe").__name__
        'ScheduleGPipe'
    """
    for name, kind in _NAMED.items():
        if name.lower() == schedule_name.lower():
            return kind
    raise ValueError(
        f"get_schedule_class: there is no schedule {schedule_name!r}; there are {list(_NAMED)}"
    )


fill(globals())
