"""A wrapper around anything that can be iterated, and one that shuffles."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable, Iterator
from typing import Any

import rushlight as rl
from rushlight._names.missing import names_missing_from
from rushlight.types import Self
from rushlight.utils.data.dataset import IterableDataset

__all__ = ["IterableWrapperIterDataPipe", "ShufflerIterDataPipe"]


class IterableWrapperIterDataPipe(IterableDataset):
    """The elements of an iterable; with ``deepcopy``, those that it has when iteration begins."""

    def __init__(self, iterable: Iterable[Any], deepcopy: bool = True) -> None:
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator[Any]:
        yield from copy.deepcopy(self.iterable) if self.deepcopy else self.iterable

    def __len__(self) -> int:
        return len(self.iterable)  # type: ignore[arg-type]


class ShufflerIterDataPipe(IterableDataset):
    """The elements of another one in random order: each is drawn from a buffer that the next one
    fills again, so a buffer as large as the data shuffles them wholly."""

    def __init__(
        self, datapipe: Iterable[Any], *, buffer_size: int = 10000, unbatch_level: int = 0
    ) -> None:
        if buffer_size < 1:
            raise ValueError(f"Shuffler: buffer_size must be at least 1, got {buffer_size}")
        if unbatch_level != 0:
            raise NotImplementedError(
                "Shuffler: unbatch_level is not supported; take batches apart"
            )
        self.datapipe, self.buffer_size = datapipe, buffer_size
        self._shuffle_enabled = True
        self._seed: int | None = None

    def set_shuffle(self, shuffle: bool = True) -> Self:
        """Turns the shuffling on or off."""
        self._shuffle_enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Self:
        """The seed of the next iteration; without one, it is drawn from the process's."""
        self._seed = seed
        return self

    def __iter__(self) -> Iterator[Any]:
        if not self._shuffle_enabled:
            yield from self.datapipe
            return
        seed, self._seed = self._seed, None
        draw = random.Random(int(rl.empty((), dtype=rl.int64).random_()) if seed is None else seed)
        buffer: list[Any] = []
        for element in self.datapipe:
            if len(buffer) == self.buffer_size:
                at = draw.randrange(len(buffer))
                chosen, buffer[at] = buffer[at], element
                yield chosen
            else:
                buffer.append(element)
        draw.shuffle(buffer)
        yield from buffer

    def __len__(self) -> int:
        return len(self.datapipe)  # type: ignore[arg-type]


__getattr__ = names_missing_from(__name__)
