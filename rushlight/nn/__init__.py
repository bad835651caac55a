"""Neural networks."""

from rushlight.nn import functional

__all__ = ["functional"]
