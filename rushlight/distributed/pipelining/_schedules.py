"""Schedules: in which order the stages of a rank run forward and backward of micro-batches.

A schedule is a list of steps (what, stage, micro-batch) per rank. Sends do not wait and receives
do, so any lists in which every value is sent before it is needed work together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.distributed.pipelining._microbatch import (
    merge_chunks,
    split_args_kwargs_into_chunks,
)
from rushlight.distributed.pipelining._stage import PipelineStage

__all__ = [
    "PipelineScheduleMulti",
    "PipelineScheduleSingle",
    "Schedule1F1B",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleLoopedBFS",
]

Step = tuple[str, int, int]  # "F" or "B", the stage's place among this rank's, the micro-batch


class _Schedule:
    """What all schedules share."""

    def __init__(
        self, stages: list[PipelineStage], n_microbatches: int,
        loss_fn: Callable[..., Any] | None = None, args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None, output_merge_spec: Any = None, scale_grads: bool = True,
    ) -> None:  # fmt: skip
        if n_microbatches < 1:
            raise ValueError(
                f"{type(self).__name__}: n_microbatches must be at least 1, got {n_microbatches}"
            )
        if not stages:
            raise ValueError(f"{type(self).__name__}: this rank has no stage")
        self._stages = sorted(stages, key=lambda s: s.stage_index)
        self._n_microbatches = n_microbatches
        self._loss_fn = loss_fn
        self._specs = (args_chunk_spec, kwargs_chunk_spec)
        self._output_merge_spec = output_merge_spec
        self.scale_grads = scale_grads
        for stage in self._stages:  # those that are beside each other on this rank
            for other in self._stages:
                if other.stage_index == stage.stage_index + 1:
                    stage.next, other.previous = other, stage

    def _steps(self) -> list[Step]:
        raise NotImplementedError

    def _forward_steps(self) -> list[Step]:
        return [("F", s, m) for s in range(len(self._stages)) for m in range(self._n_microbatches)]

    def step(
        self, *args: Any, target: Any = None, losses: list[Any] | None = None, **kwargs: Any
    ) -> Any:
        """Runs a batch: forward, and backward where there is a loss function. The rank of the first
        stage gives the arguments, that of the last stage the target; the last one gets the outputs,
        and in ``losses`` those of the micro-batches. All ranks get their gradients."""
        trains = self._loss_fn is not None
        return self._run(self._steps() if trains else self._forward_steps(), args, kwargs, target,
                         losses)  # fmt: skip

    def eval(
        self, *args: Any, target: Any = None, losses: list[Any] | None = None, **kwargs: Any
    ) -> Any:
        """Forward alone, without gradients."""
        with rushlight.no_grad():
            return self._run(self._forward_steps(), args, kwargs, target, losses)

    def _run(self, steps, args, kwargs, target, losses):
        count = self._n_microbatches
        has_first = self._stages[0].is_first
        has_last = self._stages[-1].is_last
        if has_last and self._loss_fn is not None and target is None:
            raise ValueError(f"{type(self).__name__}.step: the last stage's rank needs a target")
        parts, named = split_args_kwargs_into_chunks(args, kwargs, count, *self._specs)
        targets = None
        if has_last and target is not None:
            targets = [t for (t,) in split_args_kwargs_into_chunks((target,), None, count)[0]]
        outputs, own_losses = [None] * count, [None] * count
        left = [count] * len(self._stages)
        for what, place, number in steps:
            stage = self._stages[place]
            if what == "F":
                given = parts[number] if has_first and stage.is_first else ()
                out = stage.forward_one_chunk(number, given, named[number])
                if stage.is_last:
                    outputs[number] = out
                    if self._loss_fn is not None and targets is not None:
                        there = _on_device(targets[number], stage.device)
                        own_losses[number] = self._loss_fn(out, there)
            else:
                left[place] -= 1
                stage.backward_one_chunk(number, own_losses[number], last=left[place] == 0)
        for stage in self._stages:
            stage.finish()
        if self.scale_grads and any(n < count for n in left):
            for stage in self._stages:
                stage.scale_grads(count)
        if losses is not None and has_last:
            losses.clear()
            losses.extend(loss.detach() for loss in own_losses if loss is not None)
        return merge_chunks(outputs, self._output_merge_spec) if has_last else None


def _on_device(value, device):
    return value.to(device) if isinstance(value, rushlight.Tensor) else value


class PipelineScheduleSingle(_Schedule):
    """Schedules of one stage per rank."""

    def __init__(
        self, stage: PipelineStage, n_microbatches: int, loss_fn: Callable[..., Any] | None = None,
        args_chunk_spec: Any = None, kwargs_chunk_spec: Any = None, output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:  # fmt: skip
        if stage.num_stages != stage.group_size:
            raise ValueError(
                f"{type(self).__name__}: a rank has one stage, and {stage.group_size} ranks share "
                f"{stage.num_stages} stages; use ScheduleInterleaved1F1B or ScheduleLoopedBFS"
            )
        super().__init__([stage], n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec,
                         output_merge_spec, scale_grads)  # fmt: skip
        self._stage = stage


class ScheduleGPipe(PipelineScheduleSingle):
    """All micro-batches forward, then all backward."""

    def _steps(self) -> list[Step]:
        numbers = range(self._n_microbatches)
        return [("F", 0, m) for m in numbers] + [("B", 0, m) for m in numbers]


class Schedule1F1B(PipelineScheduleSingle):
    """One forward, one backward in turn once the pipeline is full: a stage holds the activations of
    as many micro-batches as there are stages behind it, not of all."""

    def _steps(self) -> list[Step]:
        count = self._n_microbatches
        ahead = min(count, self._stage.num_stages - self._stage.stage_index)
        steps: list[Step] = [("F", 0, m) for m in range(ahead)]
        for back in range(count):
            steps.append(("B", 0, back))
            if ahead + back < count:
                steps.append(("F", 0, ahead + back))
        return steps


class PipelineScheduleMulti(_Schedule):
    """Schedules of several stages per rank."""

    def __init__(
        self, stages: list[PipelineStage], n_microbatches: int,
        loss_fn: Callable[..., Any] | None = None, args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None, output_merge_spec: Any = None, scale_grads: bool = True,
        **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec,
                         output_merge_spec, scale_grads)  # fmt: skip
        first = self._stages[0]
        if len(self._stages) * first.group_size != first.num_stages:
            raise ValueError(
                f"{type(self).__name__}: {first.num_stages} stages on {first.group_size} ranks are "
                f"{first.num_stages // first.group_size} per rank, got {len(self._stages)}"
            )
        if first.device.type == "cuda" and first.group_size > 1 and len(self._stages) > 1:
            raise NotImplementedError(
                f"{type(self).__name__}: several stages per rank are for CPUs so far: messages "
                "between two GPUs arrive in one order, and these schedules need two"
            )


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """All micro-batches through one stage of the rank after the other, then back."""

    def _steps(self) -> list[Step]:
        back = range(len(self._stages) - 1, -1, -1)
        steps = self._forward_steps()
        return steps + [("B", s, m) for s in back for m in reversed(range(self._n_microbatches))]


class ScheduleInterleaved1F1B(PipelineScheduleMulti):
    """1F1B with several stages per rank: the pipeline fills sooner, for more messages."""

    def _steps(self) -> list[Step]:
        first = self._stages[0]
        ranks, here, mine = first.group_size, first.group_rank, len(self._stages)
        count = self._n_microbatches
        rounds = max(1, count // ranks)
        if count % rounds:
            raise ValueError(
                f"ScheduleInterleaved1F1B: {count} micro-batches cannot be shared by {rounds} "
                "rounds; take a multiple of the number of ranks"
            )
        each = count // rounds  # micro-batches of a round
        total = count * mine

        def step(what: str, i: int) -> Step:
            place = (i // each) % mine
            number = i // (each * mine) * each + i % each
            return what, place if what == "F" else mine - 1 - place, number

        ahead = min(total, (mine - 1) * each + 2 * (ranks - 1 - here) + 1)
        steps = [step("F", i) for i in range(ahead)]
        for i in range(total):
            steps.append(step("B", i))
            if ahead + i < total:
                steps.append(step("F", ahead + i))
        return steps
