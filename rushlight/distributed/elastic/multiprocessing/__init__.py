"""Processes of the launcher, and how they fail."""

from rushlight._names.missing import names_missing_from
from rushlight.distributed.elastic.multiprocessing.errors import ChildFailedError, record

__all__ = ["ChildFailedError", "record"]

__getattr__ = names_missing_from(__name__)
