"""The named tuples that operators with several results return: return_types.max, ..."""

from rushlight import _C


def __getattr__(name):
    return _C._return_type(name)
