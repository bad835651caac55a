"""Whether there is a GPU for autocast."""

from __future__ import annotations

import importlib.util

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    """Whether neither CUDA nor XLA is there."""
    from rushlight import cuda

    return not (cuda.is_available() or importlib.util.find_spec("torch_xla"))
