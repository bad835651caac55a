"""Pieces of a chain of iterable datasets. New programs write an IterableDataset."""

from rushlight._names.missing import names_missing_from
from rushlight.utils.data.datapipes.iter.combinatorics import (
    IterableWrapperIterDataPipe,
    ShufflerIterDataPipe,
)

__all__ = ["IterableWrapper", "Shuffler"]

IterableWrapper = IterableWrapperIterDataPipe
Shuffler = ShufflerIterDataPipe

__getattr__ = names_missing_from(__name__)
