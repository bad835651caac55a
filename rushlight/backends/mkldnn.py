"""oneDNN, under its old name. Rushlight uses it where it is installed."""

import sys
import types
from contextlib import contextmanager

from rushlight import config
from rushlight._names.missing import names_missing_from

__all__ = ["flags", "is_available", "set_flags", "verbose"]

deterministic = False
allow_tf32 = True
fp32_precision = "none"
VERBOSE_OFF, VERBOSE_ON, VERBOSE_ON_CREATION = 0, 1, 2


class _Switches(types.ModuleType):
    enabled = property(
        lambda module: config.onednn, lambda module, on: setattr(config, "onednn", bool(on))
    )


sys.modules[__name__].__class__ = _Switches


def is_available():
    """Whether oneDNN's library is there."""
    import glob
    import os

    folders = [os.path.join(sys.prefix, "lib"), *sys.path]
    return any(glob.glob(os.path.join(glob.escape(f), "libdnnl*.so*")) for f in folders if f)


def is_acl_available():
    """Whether oneDNN was built for the Arm Compute Library."""
    return False


def set_flags(_enabled=None, _deterministic=None, _allow_tf32=None, _fp32_precision="none"):
    """Sets the switches that are given; returns what they were."""
    old = (config.onednn, deterministic, allow_tf32)
    if _enabled is not None:
        config.onednn = bool(_enabled)
    given = {"deterministic": _deterministic, "allow_tf32": _allow_tf32}
    globals().update({name: value for name, value in given.items() if value is not None})
    return old


@contextmanager
def flags(enabled=False, deterministic=False, allow_tf32=True, fp32_precision="none"):
    """The switches for the time of a with block; all but ``enabled`` are kept only."""
    old = set_flags(enabled, deterministic, allow_tf32)
    try:
        yield
    finally:
        set_flags(*old)


class verbose:
    """A with block in which PyTorch's oneDNN prints what it does; here it stays silent."""

    def __init__(self, level):
        self.level = level

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


__getattr__ = names_missing_from(__name__)
