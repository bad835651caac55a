"""Datasets: objects with ``__getitem__`` and usually ``__len__``, or iterables; and ways to join,
cut and split them."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import rushlight
from rushlight import default_generator
from rushlight._C import Generator, Tensor

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class Dataset(Generic[_T_co]):
    """Samples by key: subclasses define ``__getitem__``, and ``__len__`` for most samplers.

    A method ``__getitems__(keys)``, where there is one, gets a whole batch at once.

    Example:
        >>> class Squares(rl.utils.data.Dataset):
        ...     def __len__(self):
        ...         return 5
        ...     def __getitem__(self, index):
        ...         return index, index**2
        >>> list(rl.utils.data.DataLoader(Squares(), batch_size=3))
        [[tensor([0, 1, 2]), tensor([0, 1, 4])], [tensor([3, 4]), tensor([ 9, 16])]]
    """

    def __getitem__(self, index: Any) -> _T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[_T_co]) -> Any:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_T_co], Iterable[_T_co]):
    """Samples in the order of ``__iter__``, for streams without random access.

    With several workers each has its own copy of the dataset and would yield everything: ask
    ``get_worker_info`` for the part to yield.

    Example:
        >>> class Count(rl.utils.data.IterableDataset):
        ...     def __iter__(self):
        ...         return iter(range(5))
        >>> list(rl.utils.data.DataLoader(Count(), batch_size=2))
        [tensor([0, 1]), tensor([2, 3]), tensor([4])]
    """

    def __add__(self, other: Dataset[_T_co]) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Rows of tensors: sample i is the tuple of ``tensor[i]``.

    Arguments:
        tensors: tensors of the same first size.

    Example:
        >>> data = rl.utils.data.TensorDataset(rl.arange(6.0).reshape(3, 2), rl.tensor([0, 1, 0]))
        >>> len(data), data[1]
        (3, (tensor([2., 3.]), tensor(1)))
    """

    def __init__(self, *tensors: Tensor) -> None:
        lengths = [t.size(0) for t in tensors]
        if len(set(lengths)) > 1:
            raise AssertionError(
                f"TensorDataset: Size mismatch between tensors: their first dims are {lengths}"
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset[Any]):
    """Several datasets side by side: sample i is a tuple, or with keywords a dict, of theirs.

    Arguments:
        args: datasets of the same length, whose samples are put into tuples; or
        kwargs: datasets by name, whose samples are put into dicts.

    Example:
        >>> rl.utils.data.StackDataset(image=["a", "b"], label=[0, 1])[1]
        {'image': 'b', 'label': 1}
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "StackDataset: datasets are given either by position (samples are tuples) or by "
                "keyword (samples are dicts), not both"
            )
        if not args and not kwargs:
            raise ValueError("StackDataset: At least one dataset should be passed")
        self.datasets = args if args else kwargs
        lengths = [len(d) for d in self._parts()]
        if len(set(lengths)) > 1:
            raise ValueError(f"StackDataset: Size mismatch between datasets: lengths are {lengths}")
        self._length = lengths[0]

    def _parts(self):
        return list(self.datasets.values()) if isinstance(self.datasets, dict) else self.datasets

    def _joined(self, values):
        if isinstance(self.datasets, dict):
            return dict(zip(self.datasets, values, strict=True))
        return tuple(values)

    def __getitem__(self, index: Any) -> tuple[Any, ...] | dict[str, Any]:
        return self._joined([dataset[index] for dataset in self._parts()])

    def __getitems__(self, indices: list) -> Any:
        columns = [_get_many(dataset, indices, "StackDataset") for dataset in self._parts()]
        return [self._joined(row) for row in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return self._length


def _get_many(dataset, indices, who):
    if not callable(getattr(dataset, "__getitems__", None)):
        return [dataset[i] for i in indices]
    items = dataset.__getitems__(indices)
    if len(items) != len(indices):
        raise ValueError(
            f"{who}: Nested dataset's output size mismatch: __getitems__ was asked for "
            f"{len(indices)} samples and returned {len(items)}"
        )
    return items


class ConcatDataset(Dataset[_T_co]):
    """Datasets one after the other.

    Arguments:
        datasets: datasets with a length.

    Example:
        >>> list(rl.utils.data.ConcatDataset([["a"], ["b", "c"]]))
        ['a', 'b', 'c']
    """

    def __init__(self, datasets: Iterable[Dataset[_T_co]]) -> None:
        self.datasets: list[Dataset[_T_co]] = list(datasets)
        if not self.datasets:
            raise AssertionError("ConcatDataset: datasets should not be an empty iterable")
        for dataset in self.datasets:
            if isinstance(dataset, IterableDataset):
                raise AssertionError(
                    "ConcatDataset does not support IterableDataset; use ChainDataset for those"
                )
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Any) -> list[int]:
        """Where each dataset ends."""
        return list(itertools.accumulate(len(dataset) for dataset in sequence))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: Any) -> _T_co:
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, idx)
        before = self.cumulative_sizes[which - 1] if which > 0 else 0
        return self.datasets[which][idx - before]

    @property
    def cummulative_sizes(self) -> list[int]:
        warnings.warn(
            "cummulative_sizes is misspelt; use cumulative_sizes", FutureWarning, stacklevel=2
        )
        return self.cumulative_sizes


class ChainDataset(IterableDataset[Any]):
    """Iterable datasets one after the other.

    Arguments:
        datasets: iterable datasets.

    Example:
        >>> class Count(rl.utils.data.IterableDataset):
        ...     def __iter__(self):
        ...         return iter(range(2))
        >>> list(rl.utils.data.ChainDataset([Count(), Count()]))
        [0, 1, 0, 1]
    """

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            _check_iterable(dataset)
            yield from dataset  # type: ignore[misc]

    def __len__(self) -> int:
        total = 0
        for dataset in self.datasets:
            _check_iterable(dataset)
            total += len(dataset)  # type: ignore[arg-type]
        return total


def _check_iterable(dataset):
    if not isinstance(dataset, IterableDataset):
        raise AssertionError(
            f"ChainDataset only supports IterableDataset, got {type(dataset).__name__}"
        )


class Subset(Dataset[_T_co]):
    """The samples of a dataset at given indices.

    Arguments:
        dataset: the whole dataset.
        indices: which samples, in which order.

    Example:
        >>> list(rl.utils.data.Subset(["a", "b", "c"], [2, 0]))
        ['c', 'a']
    """

    def __init__(self, dataset: Dataset[_T_co], indices: Sequence[int]) -> None:
        self.dataset: Any = dataset  # `len` of it is asked for, which not every dataset has
        self.indices = indices

    def __getitem__(self, idx: Any) -> _T_co:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> Any:
        keys = [self.indices[i] for i in indices]
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.dataset.__getitems__(keys)
        return [self.dataset[key] for key in keys]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Dataset[_T],
    lengths: Sequence[int | float],
    generator: Generator | None = default_generator,
) -> list[Subset[_T]]:
    """Cuts a dataset at random into subsets of given lengths, or of given fractions of it.

    Arguments:
        dataset: the dataset to cut.
        lengths: how many samples each part has, or fractions that add up to 1.
        generator: where the random numbers come from; None is the default generator.

    Example:
        >>> parts = rl.utils.data.random_split(range(10), [0.7, 0.3])
        >>> [len(part) for part in parts]
        [7, 3]
    """
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _lengths_of_fractions(lengths, len(dataset))  # type: ignore[arg-type]
    if sum(lengths) != len(dataset):  # type: ignore[arg-type]
        raise ValueError(
            "Sum of input lengths does not equal the length of the input dataset!"
            f" (random_split: {list(lengths)} add up to {sum(lengths)}, the dataset has "
            f"{len(dataset)} samples)"  # type: ignore[arg-type]
        )
    order = rushlight.randperm(sum(lengths), generator=generator).tolist()  # type: ignore[arg-type]
    ends = itertools.accumulate(lengths)
    return [
        Subset(dataset, order[end - length : end])
        for end, length in zip(ends, lengths, strict=True)
    ]


def _lengths_of_fractions(fractions, total):
    lengths = []
    for i, fraction in enumerate(fractions):
        if fraction < 0 or fraction > 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
        lengths.append(math.floor(total * fraction))
    # What rounding down left over goes to the first ones, one each.
    for i in range(total - sum(lengths)):
        lengths[i % len(lengths)] += 1
    for i, length in enumerate(lengths):
        if length == 0:
            warnings.warn(
                f"Length of split at index {i} is 0. This might result in an empty dataset.",
                stacklevel=3,
            )
    return lengths
