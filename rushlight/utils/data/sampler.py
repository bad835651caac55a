"""Samplers: iterables of the keys, or lists of keys, that a loader asks its dataset for."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Generic, TypeVar

import rushlight
from rushlight._C import Generator

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]

_T_co = TypeVar("_T_co", covariant=True)


class Sampler(Generic[_T_co]):
    """Subclasses define ``__iter__``, and ``__len__`` where the loader's length is asked for.

    Example:
        >>> class Backwards(rl.utils.data.Sampler):
        ...     def __init__(self, data):
        ...         self.data = data
        ...     def __iter__(self):
        ...         return iter(range(len(self.data) - 1, -1, -1))
        >>> list(rl.utils.data.DataLoader(["a", "b", "c"], sampler=Backwards("abc")))
        [['c'], ['b'], ['a']]
    """

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError(f"{type(self).__name__} should implement __iter__")


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ... in order.

    Arguments:
        data_source: what has the length.

    Example:
        >>> list(rl.utils.data.SequentialSampler("abc"))
        [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


def _check_count(name, value):
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")


def _check_flag(name, value):
    if not isinstance(value, bool):
        raise TypeError(f"{name} should be a boolean value, but got {name}={value}")


class RandomSampler(Sampler[int]):
    """All indices in random order, or with ``replacement`` as many independent draws.

    Without a generator one is made for each pass, seeded from the default generator.

    Arguments:
        data_source: what has the length.
        replacement: the same index may come several times.
        num_samples: how many; None is the length.
        generator: where the random numbers come from; None is the default generator.

    Example:
        >>> sorted(rl.utils.data.RandomSampler(range(4), num_samples=4))
        [0, 1, 2, 3]
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        _check_flag("replacement", replacement)
        _check_count("num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        # Asked for each time: the dataset may have grown.
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        total, wanted = len(self.data_source), self.num_samples
        generator = self.generator
        if generator is None:
            generator = rushlight.Generator().manual_seed(_random_seed())
        if self.replacement:
            for begin in range(0, wanted, 4096):
                count = min(4096, wanted - begin)
                draws = rushlight.randint(high=total, size=(count,), generator=generator)
                yield from draws.tolist()
            return
        for begin in range(0, wanted, max(total, 1)):
            order = rushlight.randperm(total, generator=generator)
            yield from _ints(order[: wanted - begin])

    def __len__(self) -> int:
        return self.num_samples


def _ints(order):
    """The elements as ints, some thousand at a time: the first is there soon."""
    for part in order.split(4096):
        yield from part.tolist()


def _random_seed():
    return int(rushlight.empty((), dtype=rushlight.int64).random_().item())


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order.

    Arguments:
        indices: the indices.
        generator: where the random numbers come from; None is the default generator.

    Example:
        >>> g = rl.Generator().manual_seed(0)
        >>> sorted(rl.utils.data.SubsetRandomSampler([3, 1], generator=g))
        [1, 3]
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in _ints(rushlight.randperm(len(self.indices), generator=self.generator)):
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Draws of 0 ... len(weights) - 1 with given weights, which need not add up to 1.

    Draws classes of different frequency equally often, if each sample's weight is one over the
    size of its class.

    Arguments:
        weights: a weight per index.
        num_samples: how many are drawn.
        replacement: the same index may come several times.
        generator: where the random numbers come from; None is the default generator.

    Example:
        >>> list(rl.utils.data.WeightedRandomSampler([0.0, 1.0], 3, replacement=True))
        [1, 1, 1]
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        _check_count("num_samples", num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        weights = rushlight.as_tensor(weights, dtype=rushlight.double)
        if weights.dim() != 1:
            raise ValueError(
                "weights should be a 1d sequence but given weights have shape "
                f"{tuple(weights.shape)}"
            )
        self.weights = weights
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        draws = rushlight.multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        yield from _ints(draws)

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of ``batch_size`` keys of another sampler; the last may be shorter, or dropped.

    Arguments:
        sampler: gives keys.
        batch_size: how many per list.
        drop_last: leave out a last list that is not full.

    Example:
        >>> list(rl.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool
    ) -> None:
        _check_batch_size(batch_size)
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        keys = iter(self.sampler)
        while batch := list(itertools.islice(keys, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        whole, rest = divmod(len(self.sampler), self.batch_size)  # type: ignore[arg-type]
        return whole if self.drop_last or rest == 0 else whole + 1


def _check_batch_size(value):
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(
            f"batch_size should be a positive integer value, but got batch_size={value}"
        )
