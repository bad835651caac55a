"""Neural networks."""

from rushlight.nn import functional
