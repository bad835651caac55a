"""Classes that C++ extensions of PyTorch register: there are none."""

from __future__ import annotations

from typing import NoReturn

from rushlight._missing import names_missing_from

loaded_libraries = set()


def load_library(path: str) -> NoReturn:
    """Loads classes from a shared library."""
    raise NotImplementedError(
        f"classes.load_library: {path} is written against PyTorch's C++ interface, which Rushlight "
        "does not have"
    )


__getattr__ = names_missing_from(__name__)
