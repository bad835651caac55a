"""The named tuples that operators with several results return: return_types.max, ..."""

from rushlight import _C

_types = getattr(_C, "_return_types", {})
globals().update(_types)
__all__ = sorted(_types)
