"""Stages of a pipeline."""

from rushlight._names.missing import fill
from rushlight.distributed.pipelining._split import build_stage
from rushlight.distributed.pipelining._stage import PipelineStage

__all__ = ["PipelineStage", "build_stage"]

fill(globals())
