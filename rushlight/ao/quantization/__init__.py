"""Quantization: not there. QuantStub and DeQuantStub do nothing in a float model, as in PyTorch."""

from __future__ import annotations

from typing import Any

from rushlight._names.missing import fill
from rushlight.nn import Identity

__all__ = ["DeQuantStub", "QuantStub"]


class QuantStub(Identity):
    """Marks where a quantized model would quantize its input; in a float model, the identity."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()


class DeQuantStub(QuantStub):
    """Marks where a quantized model would go back to floats."""


fill(globals())
