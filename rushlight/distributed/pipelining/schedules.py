"""Schedules by their names."""

from __future__ import annotations

from rushlight._names.missing import fill
from rushlight.distributed.pipelining._schedules import (
    PipelineScheduleMulti,
    PipelineScheduleSingle,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleLoopedBFS,
)

__all__ = [
    "PipelineScheduleMulti",
    "PipelineScheduleSingle",
    "Schedule1F1B",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleLoopedBFS",
    "get_schedule_class",
]

_NAMED = {
    "1F1B": Schedule1F1B,
    "Interleaved1F1B": ScheduleInterleaved1F1B,
    "GPipe": ScheduleGPipe,
    "LoopedBFS": ScheduleLoopedBFS,
    "PipelineScheduleSingle": PipelineScheduleSingle,
    "PipelineScheduleMulti": PipelineScheduleMulti,
}


def get_schedule_class(
    schedule_name: str,
) -> type[PipelineScheduleSingle] | type[PipelineScheduleMulti]:
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
