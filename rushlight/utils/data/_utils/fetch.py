"""How one batch is made: ask the dataset for samples, then collate them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import rushlight
from rushlight.utils.data._utils import buffers
from rushlight.utils.data._utils.collate import CollateError, default_collate
from rushlight.utils.data.dataset import StackDataset, Subset, TensorDataset

if TYPE_CHECKING:
    from rushlight.utils.data.dataset import Dataset

NO_SAMPLE = object()  # nothing can be said about which sample failed


class MapFetcher:
    """Batches of a dataset with ``__getitem__``."""

    progress = [0, 0]  # noqa: RUF012 -- a worker puts memory here that the main process reads

    def __init__(self, dataset, auto_collation, collate_fn, randomness):
        self._dataset = dataset
        self._auto_collation = auto_collation
        self._collate_fn = collate_fn
        self._randomness = randomness
        self.failed_at = NO_SAMPLE
        # A batch of rows is one indexing operation; nothing in it could be random.
        self._rows_at_once = (
            auto_collation
            and collate_fn is default_collate
            and type(_innermost(dataset)) is TensorDataset
            and all(type(t) is rushlight.Tensor for t in _innermost(dataset).tensors)
        )
        self._many = _batch_getter(dataset) if auto_collation else None

    def fetch(self, number, keys):
        """Batch ``number`` of the epoch: the samples of a list of keys, or of one key."""
        self.failed_at = NO_SAMPLE
        if not self._auto_collation:
            self.failed_at = keys
            self._randomness.for_sample(keys)
            return self._collate_fn(self._dataset[keys])
        if self._rows_at_once and keys and all(type(key) is int for key in keys):
            return _rows(self._dataset, keys)
        if self._many is not None:
            self._randomness.for_batch(number)
            samples = self._many(keys)
        else:
            samples = self._one_by_one(keys)
        self.failed_at, self.progress[1] = NO_SAMPLE, -1
        if self._collate_fn is not default_collate:
            self._randomness.for_batch(number)
        try:
            return self._collate_fn(samples)
        except CollateError as error:
            raise error.with_keys(keys) from None

    def _one_by_one(self, keys):
        samples, dataset, seed = [], self._dataset, self._randomness.for_sample
        progress = self.progress
        for place, key in enumerate(keys):
            progress[1] = place
            self.failed_at = key
            seed(key)
            samples.append(dataset[key])
        return samples


def _innermost(dataset):
    while type(dataset) is Subset:
        dataset = dataset.dataset
    return dataset


def _batch_getter(dataset):
    """``__getitems__``, unless in the end it would ask for one sample after the other anyway."""
    return dataset.__getitems__ if _gets_many(dataset) else None


def _gets_many(dataset):
    dataset = _innermost(dataset)
    if type(dataset) is StackDataset:
        return any(_gets_many(part) for part in dataset._parts())
    return callable(getattr(dataset, "__getitems__", None))


def _rows(dataset, keys):
    while type(dataset) is Subset:
        indices = dataset.indices
        keys = [indices[key] for key in keys]
        dataset = dataset.dataset
    index = rushlight.tensor(keys)
    return [buffers.rows(tensor, index) for tensor in dataset.tensors]


class IterableFetcher:
    """Batches of an iterable dataset."""

    def __init__(self, dataset, auto_collation, collate_fn, drop_last, randomness):
        self._randomness = randomness
        randomness.for_batch(-1)
        self._samples = iter(dataset)
        self._auto_collation = auto_collation
        self._collate_fn = collate_fn
        self._drop_last = drop_last
        self._batches = 0
        self._taken = 0
        self.failed_at = NO_SAMPLE

    def skip(self, count, keys):
        """Passes over batches, and errors, that were handed out before."""
        for _ in range(count):
            try:
                self.fetch(None, keys)
            except StopIteration:
                raise
            except Exception:
                pass

    def fetch(self, _, keys):
        """The next batch, as long as ``keys``; StopIteration after the last."""
        # By the batches of this stream: the numbers it gets depend on how fast others are.
        self._randomness.for_batch(self._batches)
        self._batches += 1
        if not self._auto_collation:
            return self._collate_fn(next(self._samples))
        batch = list(itertools.islice(self._samples, len(keys)))
        if not batch or (self._drop_last and len(batch) < len(keys)):
            raise StopIteration
        positions = range(self._taken, self._taken + len(batch))
        self._taken += len(batch)
        try:
            return self._collate_fn(batch)
        except CollateError as error:
            raise error.with_keys(positions) from None


class _DatasetKind:
    """PyTorch's names for the two kinds of datasets."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(
        kind: Any,
        dataset: Dataset[Any],
        auto_collation: Any,
        collate_fn: Callable[[list[Any]], Any] | None,
        drop_last: bool,
        randomness: str,
    ) -> Any:
        if kind == _DatasetKind.Map:
            return MapFetcher(dataset, auto_collation, collate_fn, randomness)
        return IterableFetcher(dataset, auto_collation, collate_fn, drop_last, randomness)
