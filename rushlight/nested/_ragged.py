"""Where the sequences of a nested tensor lie, and the size that stands for all their lengths."""

from __future__ import annotations

import itertools
from typing import Any

from rushlight import _C
from rushlight._C import Tensor

_numbers = itertools.count(1)


class NestedInt:
    """The size of a ragged dim: no number, but equal to that of tensors with the same lengths.

    It prints as PyTorch's do: j1, j2, and so on.
    """

    __slots__ = ("_number", "_ragged")

    def __init__(self, ragged: Ragged) -> None:
        self._ragged, self._number = ragged, next(_numbers)

    def __repr__(self) -> str:
        return f"j{self._number}"

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, NestedInt) and self._ragged.counts == other._ragged.counts
        )

    def __hash__(self) -> int:
        return hash(NestedInt)

    def __int__(self) -> int:
        raise TypeError(
            f"{self!r} is the size of a ragged dim, no number; max(nt.offsets().diff()) is the "
            "longest length"
        )

    __index__ = __int__

    def __bool__(self) -> bool:
        return True


class Ragged:
    """Sequences in a packed dim: offsets (one more than sequences), and lengths where not all of
    the rows between two offsets belong to the sequence."""

    def __init__(self, offsets: Tensor, lengths: Tensor | None = None, total: int = 0) -> None:
        self.offsets, self.lengths, self.total = offsets, lengths, total
        self.size = NestedInt(self)
        self._kept: dict[str, Any] = {}

    def __len__(self) -> int:
        return self.offsets.shape[0] - 1

    def _once(self, name, make):
        # What follows from offsets is asked for by every op; a GPU is made to wait once.
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]

    @property
    def starts(self) -> list[int]:
        """Where each sequence begins."""
        return self._once("starts", lambda: self.offsets.tolist()[:-1])

    @property
    def counts(self) -> list[int]:
        """How long each of them is."""

        def make():
            if self.lengths is not None:
                return self.lengths.tolist()
            ends = self.offsets.tolist()
            return [b - a for a, b in itertools.pairwise(ends)]

        return self._once("counts", make)

    @property
    def longest(self) -> int:
        """The largest length."""
        return max(self.counts, default=0)

    @property
    def lengths_tensor(self) -> Tensor:
        """The lengths as a tensor."""
        return self._once(
            "lengths", lambda: self.offsets.diff() if self.lengths is None else self.lengths
        )

    @property
    def samples(self) -> Tensor:
        """Of each row of a packed dim without holes: the number of its sequence."""

        def make():
            numbers = _C.arange(len(self), device=self.offsets.device)
            return numbers.repeat_interleave(
                self.lengths_tensor.long(), output_size=sum(self.counts)
            )

        return self._once("samples", make)

    @property
    def positions(self) -> Tensor:
        """The same: its place in the sequence."""

        def make():
            lengths = self.lengths_tensor.long()
            first = lengths.cumsum(0) - lengths
            rows = _C.arange(sum(self.counts), device=self.offsets.device)
            return rows - first[self.samples]

        return self._once("positions", make)

    @property
    def is_whole(self) -> bool:
        """Do the sequences fill the packed dim, one behind the other?"""
        return self.lengths is None and self._once(
            "whole", lambda: self.starts[:1] in ([], [0]) and sum(self.counts) == self.total
        )

    def packed(self) -> tuple[Tensor, Ragged]:
        """Rows of the packed dim that belong to sequences, and where these lie then."""

        def make():
            rows = self.offsets[:-1].long()[self.samples] + self.positions
            lengths = self.lengths_tensor.long()
            offsets = _C.cat([lengths.new_zeros(1), lengths.cumsum(0)])
            return rows, Ragged(offsets, None, sum(self.counts))

        return self._once("packed", make)

    def to(self, device: Any) -> Ragged:
        """The same on a device."""
        if self.offsets.device == device:
            return self
        lengths = None if self.lengths is None else self.lengths.to(device)
        made = Ragged(self.offsets.to(device), lengths, self.total)
        made.size = self.size
        for name in ("starts", "counts"):
            if name in self._kept:
                made._kept[name] = self._kept[name]
        return made

    def same_as(self, other: Ragged) -> bool:
        """Do both have the same sequences at the same places?"""
        if self is other or self.size is other.size:
            return True
        return self.starts == other.starts and self.counts == other.counts
