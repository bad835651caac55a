"""The named tuples that operators with several results return: return_types.max, ..."""

from rushlight import _C


def __getattr__(name):
    try:
        return _C._return_types[name]
    except KeyError:
        raise AttributeError(f"module 'rushlight.return_types' has no attribute {name!r}") from None


def __dir__():
    return sorted(_C._return_types)
