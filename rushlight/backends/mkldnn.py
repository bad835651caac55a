"""oneDNN, under its old name. Rushlight uses it where it is installed."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from rushlight import config
from rushlight._names.missing import names_missing_from
from rushlight.types import Self

__all__ = ["flags", "is_available", "set_flags", "verbose"]

deterministic = False
allow_tf32 = True
fp32_precision = "none"
VERBOSE_OFF, VERBOSE_ON, VERBOSE_ON_CREATION = 0, 1, 2


class _Switches(types.ModuleType):
    enabled = property(
        lambda module: config.onednn,  # type: ignore[attr-defined]
        lambda module, on: setattr(config, "onednn", bool(on)),
    )


sys.modules[__name__].__class__ = _Switches


def is_available() -> bool:
    """Whether oneDNN's library is there."""
    import glob
    import os

    folders = os.environ.get("RUSHLIGHT_LIBRARY_PATH", "").split(":")
    folders += [os.path.join(sys.prefix, "lib"), *sys.path]
    # Our own wheel has a folder for it.
    folders += [os.path.join(f, "rushlight_onednn") for f in folders if f]
    return any(glob.glob(os.path.join(glob.escape(f), "libdnnl*.so*")) for f in folders if f)


def is_acl_available() -> bool:
    """Whether oneDNN was built for the Arm Compute Library."""
    return False


def set_flags(
    _enabled: bool | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str = "none",
) -> tuple[bool, bool, bool]:
    """Sets the switches that are given; returns what they were."""
    old = (config.onednn, deterministic, allow_tf32)  # type: ignore[attr-defined]
    if _enabled is not None:
        config.onednn = bool(_enabled)  # type: ignore[attr-defined]
    given = {"deterministic": _deterministic, "allow_tf32": _allow_tf32}
    globals().update({name: value for name, value in given.items() if value is not None})
    return old


@contextmanager
def flags(
    enabled: bool = False,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> Iterator[None]:
    """The switches for the time of a with block; all but ``enabled`` are kept only."""
    old = set_flags(enabled, deterministic, allow_tf32)
    try:
        yield
    finally:
        set_flags(*old)


class verbose:
    """A with block in which PyTorch's oneDNN prints what it does; here it stays silent."""

    def __init__(self, level: int) -> None:
        self.level = level

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> Literal[False]:
        return False


__getattr__ = names_missing_from(__name__)
