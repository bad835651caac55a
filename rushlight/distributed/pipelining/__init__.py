"""Pipelines: the layers of a model on several ranks, which work on parts of a batch in turn."""

from rushlight._names.missing import fill
from rushlight.distributed.pipelining._microbatch import (
    TensorChunkSpec,
    merge_chunks,
    split_args_kwargs_into_chunks,
)
from rushlight.distributed.pipelining._schedules import (
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleLoopedBFS,
)
from rushlight.distributed.pipelining._split import (
    Pipe,
    SplitPoint,
    build_stage,
    pipe_split,
    pipeline,
)
from rushlight.distributed.pipelining._stage import PipelineStage

__all__ = [
    "Pipe",
    "PipelineStage",
    "Schedule1F1B",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleLoopedBFS",
    "SplitPoint",
    "TensorChunkSpec",
    "build_stage",
    "merge_chunks",
    "pipe_split",
    "pipeline",
    "split_args_kwargs_into_chunks",
]

fill(globals())
