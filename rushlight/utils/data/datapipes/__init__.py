"""Iterable datasets that are chained: the two pieces that programs still ask for."""

from rushlight._names.missing import names_missing_from

__getattr__ = names_missing_from(__name__)
