"""Modules of quantized models."""

from rushlight.ao.nn import intrinsic, qat, quantized

__all__ = ["intrinsic", "qat", "quantized"]
