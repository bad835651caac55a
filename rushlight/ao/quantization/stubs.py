"""Where a model goes from floats to integers, and back."""

from __future__ import annotations

from typing import Any

from rushlight import Tensor
from rushlight.nn import Module

__all__ = ["DeQuantStub", "QuantStub", "QuantWrapper"]


class QuantStub(Module):
    """Marks where the model's input is quantized; the identity until convert."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig is not None:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        """Its input."""
        return x


class DeQuantStub(QuantStub):
    """Marks where the model goes back to floats."""


class QuantWrapper(Module):
    """A module between a QuantStub and a DeQuantStub."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        if hasattr(module, "qconfig"):
            self.qconfig = module.qconfig
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        self.module = module
        self.train(module.training)

    def forward(self, X: Tensor) -> Tensor:
        """The module's result for quantized X."""
        return self.dequant(self.module(self.quant(X)))
