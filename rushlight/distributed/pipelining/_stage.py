"""PipelineStage: a part of a model on this rank, and its messages with the parts beside it.

Values go from each stage to the next; gradients come back for those that want one. Of the first
step, shapes and dtypes travel before the tensors; later steps must have the same.
"""

from __future__ import annotations

import contextlib
import pickle
from typing import Any

import rushlight
from rushlight import distributed as dist
from rushlight._C import Tensor
from rushlight.distributed._world import world
from rushlight.distributed.fsdp import FSDPModule
from rushlight.nn import Module
from rushlight.nn.parallel import DistributedDataParallel

__all__ = ["PipelineStage"]


_VALUES, _GRADIENTS, _KINDS = range(3)


def _as_tuple(values: Any) -> tuple[Any, ...]:
    return tuple(values) if isinstance(values, (tuple, list)) else (values,)


class _Kind:
    """Shape, dtype, and whether a gradient comes back, of the tensors of one micro-batch."""

    def __init__(self, tensors: tuple[Any, ...]) -> None:
        self.entries = [(tuple(t.shape), t.dtype, t.requires_grad) for t in tensors]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Kind) and self.entries == other.entries

    __hash__ = None  # type: ignore[assignment]

    def room(self, device: Any) -> list[Tensor]:
        """Memory to receive into."""
        return [rushlight.empty(shape, dtype=dtype, device=device)
                for shape, dtype, _ in self.entries]  # fmt: skip


class PipelineStage:
    """Stage ``stage_index`` of ``num_stages``. Stages lie on the ranks of the group in turn: stage
    s is on rank s modulo the number of ranks."""

    def __init__(
        self, submodule: Module, stage_index: int, num_stages: int, device: Any,
        input_args: Any = None, output_args: Any = None, group: Any = None, dw_builder: Any = None,
    ) -> None:  # fmt: skip
        if dw_builder is not None:
            raise NotImplementedError(
                "PipelineStage: dw_builder is not there: backward is one step"
            )
        if not 0 <= stage_index < num_stages:
            raise ValueError(
                f"PipelineStage: stage_index must be from 0 to {num_stages - 1}, got {stage_index}"
            )
        self.submod = self.submodule = submodule
        self.stage_index, self.num_stages = stage_index, num_stages
        self.device = rushlight.device(device)
        self.group = group
        self.group_size, self.group_rank = dist.get_world_size(group), dist.get_rank(group)
        if num_stages % self.group_size:
            raise ValueError(
                f"PipelineStage: {num_stages} stages cannot be shared equally by "
                f"{self.group_size} ranks"
            )
        if stage_index % self.group_size != self.group_rank:
            raise ValueError(
                f"PipelineStage: stage {stage_index} belongs to rank "
                f"{stage_index % self.group_size} of the group, and this is rank {self.group_rank}"
            )
        self._place = world.member(group, "PipelineStage").group._device()
        self._arriving: dict[int, _Kind] = {}  # by micro-batch
        self._leaving: dict[int, _Kind] = {}
        self._inputs: dict[int, tuple[Any, ...]] = {}
        self._outputs: dict[int, tuple[Any, ...]] = {}
        self._gradients: dict[int, list[Any]] = {}  # of outputs, where the next stage is here
        self._works: list[Any] = []
        self.next: PipelineStage | None = None  # where that is on this rank, too
        self.previous: PipelineStage | None = None

    @property
    def is_first(self) -> bool:
        """Does it take the batch?"""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Does it make the result?"""
        return self.stage_index == self.num_stages - 1

    # Messages

    def _tag(self, sender: int, number: int, what: int) -> int:
        """A message of stage ``sender`` about micro-batch ``number``."""
        return (number * self.num_stages + sender) * 3 + what

    def _send(self, tensors, to_stage, tag):
        peer = to_stage % self.group_size
        for tensor in tensors:
            kept = tensor.detach().contiguous()
            work = dist.isend(kept, group=self.group, group_dst=peer, tag=tag)
            self._works.append((work, kept))

    def _receive(self, room, from_stage, tag):
        peer = from_stage % self.group_size
        for tensor in room:
            dist.recv(tensor, group=self.group, group_src=peer, tag=tag)
        return room

    def _announce(self, number: int, kind: _Kind) -> None:
        """Says once what the tensors of a micro-batch are."""
        known = self._leaving.get(number)
        if known == kind:
            return
        if (
            known is not None
            and len(known.entries) == len(kind.entries)
            and all(a[:2] == b[:2] for a, b in zip(known.entries, kind.entries, strict=True))
        ):  # only whether gradients come back has changed: both sides know that by themselves
            return
        if known is not None:
            raise ValueError(
                f"PipelineStage: stage {self.stage_index} gave {known.entries} for micro-batch "
                f"{number} before, and {kind.entries} now; all steps must have the same shapes "
                "and dtypes"
            )
        self._leaving[number] = kind
        # Not as an object, whose sending waits: the next stage may be sending, too.
        data = rushlight.frombuffer(bytearray(pickle.dumps(kind.entries)), dtype=rushlight.uint8)
        length = rushlight.tensor([data.numel()])
        tag = self._tag(self.stage_index, number, _KINDS)
        self._send([length.to(self._place), data.to(self._place)], self.stage_index + 1, tag)

    def _expected(self, number: int) -> _Kind:
        if number not in self._arriving:
            before = self.stage_index - 1
            tag = self._tag(before, number, _KINDS)
            length = rushlight.zeros(1, dtype=rushlight.int64, device=self._place)
            self._receive([length], before, tag)
            data = rushlight.empty(int(length), dtype=rushlight.uint8, device=self._place)
            self._receive([data], before, tag)
            self._arriving[number] = kind = _Kind(())
            kind.entries = pickle.loads(bytes(data.tolist()))
        return self._arriving[number]

    # Forward and backward of a micro-batch

    def _take_inputs(self, number: int) -> tuple[Any, ...]:
        if self.previous is not None:
            return tuple(t.detach().requires_grad_(t.requires_grad)
                         for t in self.previous._outputs[number])  # fmt: skip
        kind = self._expected(number)
        tag = self._tag(self.stage_index - 1, number, _VALUES)
        room = self._receive(kind.room(self.device), self.stage_index - 1, tag)
        wants = rushlight.is_grad_enabled()
        return tuple(
            t.requires_grad_(wants and grad)
            for t, (_, _, grad) in zip(room, kind.entries, strict=True)
        )

    def forward_one_chunk(
        self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Runs a micro-batch: with the arguments on the first stage, elsewhere with what the stage
        before sends."""
        inputs = args if self.is_first else self._take_inputs(number)
        if self.is_first:
            inputs = tuple(t.to(self.device) if isinstance(t, Tensor) else t for t in inputs)
        with self._without_sync():
            output = self.submod(*inputs, **(kwargs or {}))
        outputs = _as_tuple(output)
        self._inputs[number], self._outputs[number] = inputs, outputs
        if self.is_last:
            return output
        for value in outputs:
            if not isinstance(value, Tensor):
                raise TypeError(
                    f"PipelineStage: stage {self.stage_index} must give tensors to the next, got "
                    f"{type(value).__name__}"
                )
        if self.next is None:
            self._announce(number, _Kind(outputs))
            self._send(outputs, self.stage_index + 1, self._tag(self.stage_index, number, _VALUES))
        return output

    def backward_one_chunk(self, number: int, loss: Any = None, last: bool = True) -> None:
        """Gradients of a micro-batch: of the loss on the last stage, elsewhere of what the next
        stage sends. ``last``: no other micro-batch of the step follows."""
        inputs, outputs = self._inputs.pop(number), self._outputs.pop(number)
        self._sync_if(last)
        if self.is_last:
            loss.backward()
        else:
            self._run_backward(number, outputs)
        if self.is_first:
            return
        grads = [
            rushlight.zeros_like(t) if t.grad is None else t.grad
            for t in inputs
            if isinstance(t, Tensor) and t.requires_grad
        ]
        if self.previous is not None:
            self.previous._gradients[number] = grads
        else:
            tag = self._tag(self.stage_index, number, _GRADIENTS)
            self._send(grads, self.stage_index - 1, tag)

    def _run_backward(self, number, outputs):
        wanted = [t for t in outputs if t.requires_grad]
        if self.next is not None:
            grads = self._gradients.pop(number)
        else:
            room = [rushlight.empty_like(t, memory_format=rushlight.contiguous_format)
                    for t in wanted]  # fmt: skip
            tag = self._tag(self.stage_index + 1, number, _GRADIENTS)
            grads = self._receive(room, self.stage_index + 1, tag)
        if wanted:
            rushlight.autograd.backward(wanted, grads)

    def _without_sync(self) -> Any:
        """A replica decides in forward whether backward averages; here it is known in backward."""
        if isinstance(self.submod, DistributedDataParallel):
            return self.submod.no_sync()
        return contextlib.nullcontext()

    def _sync_if(self, last: bool) -> None:
        """Data parallel replicas of a stage average once per step."""
        if isinstance(self.submod, DistributedDataParallel) and last:
            self.submod.reducer.prepare_for_backward([])
        if isinstance(self.submod, FSDPModule):
            self.submod.set_requires_gradient_sync(last)

    def finish(self) -> None:
        """Waits for what was sent, and forgets the step."""
        for work, _ in self._works:
            work.wait()
        self._works = []
        self._inputs.clear()
        self._outputs.clear()
        self._gradients.clear()

    def scale_grads(self, grad_scale_factor: int) -> None:
        """Divides the gradients, as those of a mean over the micro-batches."""
        if grad_scale_factor == 1:
            return
        with rushlight.no_grad():
            for p in self.submod.parameters():
                if p.grad is not None:
                    p.grad.div_(grad_scale_factor)
