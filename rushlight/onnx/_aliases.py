"""Writes in place, in a format that has none: the value gets a new name."""

from __future__ import annotations

from typing import Any

from rushlight.onnx._read import ProgramData, places_of, read_by
from rushlight.onnx._writer import UnsupportedError

# Operators whose result may be the same memory as their first argument.
VIEWS = frozenset(
    """view reshape _unsafe_view transpose permute select slice narrow expand expand_as squeeze
    unsqueeze flatten unflatten split chunk unbind split_with_sizes unsafe_split unsafe_chunk detach
    alias contiguous to float double half t mT T numpy_T movedim moveaxis swapaxes swapdims view_as
    reshape_as diagonal unfold type_as broadcast_to tensor_split real imag requires_grad_""".split()
)


def is_in_place(op: str) -> bool:
    """Whether an operator changes its first argument, by its name."""
    return op.endswith("_") and not op.endswith("__")


class Aliases:
    """Which values are one and the same tensor, and which share memory with others."""

    def __init__(self, data: ProgramData) -> None:
        self._data = data
        self._same: dict[int, int] = {}  # {value: the first of those that are this tensor}
        self._memory: dict[int, int] = {}  # {the first: whose memory it looks at}

    def same(self, value: int) -> int:
        return self._same.get(value, value)

    def note(self, instruction: dict[str, Any]) -> None:
        """Remembers what a view looks at."""
        if instruction["op"] not in VIEWS:
            return
        sources = list(places_of(instruction["args"].get("self")))
        if not sources:
            return
        source = self.same(sources[0])
        for result in instruction["results"]:
            for number in result if isinstance(result, list) else [result]:
                self._memory[number] = self._memory.get(source, source)

    def write(self, at: int, instruction: dict[str, Any]) -> int:
        """The value that an instruction in place changes. Others that share its memory must not be
        read afterwards."""
        target = instruction["args"].get("self", instruction["args"].get("input"))
        written = self.same(next(places_of(target)))
        memory = self._memory.get(written, written)
        if memory < 0:
            raise UnsupportedError("it writes to a parameter, buffer or constant, which ONNX "
                                   "cannot; is the model in eval mode?")  # fmt: skip
        others = {v for v, m in self._memory.items() if m == memory} | {memory}
        others = {v for v in others if self.same(v) != written}
        later = set(places_of(self._data.output))
        for row in self._data.body[at + 1 :]:
            later |= set(read_by(row))
        if any(self.same(v) in others for v in later):
            raise UnsupportedError(
                "it writes to a part of a tensor in place, which ONNX cannot; build the tensor "
                "with cat, stack or where instead"
            )
        for number in instruction["results"]:
            self._same[number] = written
        return written
