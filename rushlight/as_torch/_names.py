"""Which package Rushlight's types name when they are printed."""

import rushlight
from rushlight import _C
from rushlight._tensor import legacy_types

# Types that programs recognise by str(type(x)) or type(x).__module__.
_TYPES = (
    "Tensor Size dtype device layout memory_format Generator UntypedStorage finfo iinfo".split()
)


def print_names_of(package):
    """From now on reprs say "torch.float32" or "rushlight.float32", and so on."""
    _C._set_printed_package(package)
    legacy_types.printed_package = package
    for name in _TYPES:
        getattr(rushlight, name).__module__ = package
    for cls in legacy_types.TYPES.values():
        cls.__module__ = package
