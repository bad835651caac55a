"""Memory that is written in place and depends on no input, such as masks that programs build.

ONNX has no writes, so what stands in such memory whenever somebody reads it becomes a constant.
"""

from __future__ import annotations

from typing import Any

from rushlight.onnx._aliases import VIEWS, is_in_place
from rushlight.onnx._read import ProgramData, places_of, read_by

_RANDOM = frozenset(
    """bernoulli dropout exponential_ multinomial normal normal_ poisson rand rand_like randint
    randint_like randn randn_like randperm random_ uniform_""".split()
)


class Folded:
    """Which values lie in memory that is a constant whenever it is read."""

    def __init__(self, data: ProgramData, sizes_change: bool) -> None:
        self._memory: dict[int, int] = {}
        for row in data.body:
            self._place(row)
        self._written: set[int] = set()
        inputs = set(places_of([row["value"] for row in data.inputs]))
        depends = self._spread(data, inputs, sizes_change)
        self._constant = {memory for memory in self._written - depends if memory >= 0}

    def memory(self, value: int) -> int:
        return self._memory.get(value, value)

    def __contains__(self, value: int) -> bool:
        return self.memory(value) in self._constant

    def is_folded(self, row: dict[str, Any]) -> bool:
        """Whether an instruction only makes, changes or looks at such memory."""
        return all(number in self for number in numbers_in(row["results"]))

    def _place(self, row: dict[str, Any]) -> None:
        """Views and results in place lie in the memory of what they are made from."""
        if row["op"] not in VIEWS and not is_in_place(row["op"]):
            return
        source = next(places_of(row["args"].get("self")), None)
        if source is not None:
            for number in numbers_in(row["results"]):
                self._memory[number] = self.memory(source)

    def _spread(self, data: ProgramData, depends: set[int], sizes_change: bool) -> set[int]:
        """All memory that inputs, dynamic sizes or random numbers reach."""
        while True:
            before = len(depends)
            for row in data.body:
                results = {self.memory(n) for n in numbers_in(row["results"])}
                if is_in_place(row["op"]):
                    self._written |= results
                read = [] if _asks_for_kind(row["op"], sizes_change) else read_by(row)
                reached = any(self.memory(n) in depends for n in read)
                if reached or _is_open(row, sizes_change):
                    depends |= results
            if len(depends) == before:
                return depends


def _asks_for_kind(op: str, sizes_change: bool) -> bool:
    """Whether the result has the dtype (and shape) of an argument, and none of its values."""
    if op in ("zeros_like", "ones_like", "full_like"):
        return not sizes_change
    return op in ("new_zeros", "new_ones", "new_full")


def _is_open(row: dict[str, Any], sizes_change: bool) -> bool:
    return row["op"] in _RANDOM or (sizes_change and "'sizes'" in repr(row["args"]))


def numbers_in(results: Any) -> list[int]:
    """The numbers of an instruction's results."""
    found: list[int] = []
    for result in results:
        found += result if isinstance(result, list) else [result]
    return [number for number in found if number is not None]
