"""Settings of chains of datasets."""

from __future__ import annotations

from typing import Any

from rushlight._names.missing import names_missing_from
from rushlight.utils.data.datapipes.iter.combinatorics import ShufflerIterDataPipe

__all__ = ["apply_shuffle_settings"]


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Turns the shuffling of every Shuffler in a chain on or off; None leaves it."""
    link = datapipe
    while link is not None and shuffle is not None:
        if isinstance(link, ShufflerIterDataPipe):
            link.set_shuffle(shuffle)
        link = getattr(link, "datapipe", None)
    return datapipe


__getattr__ = names_missing_from(__name__)
