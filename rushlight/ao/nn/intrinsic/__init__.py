"""Modules that become one when a model is quantized."""

from __future__ import annotations

from rushlight import Tensor
from rushlight.nn import Conv1d, Conv2d, Conv3d, Linear, Module, ReLU, Sequential

__all__ = ["ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearReLU"]


class _WithReLU(Sequential):
    """A module and the ReLU behind it."""

    _first: type[Module]

    def __init__(self, first: Module, relu: ReLU) -> None:
        if not isinstance(first, self._first) or not isinstance(relu, ReLU):
            raise AssertionError(
                f"{type(self).__name__}: expects a {self._first.__name__} and a ReLU, got "
                f"{type(first).__name__} and {type(relu).__name__}"
            )
        super().__init__(first, relu)

    def forward(self, input: Tensor) -> Tensor:
        return self[1](self[0](input))  # an observer may have joined them


class LinearReLU(_WithReLU):
    """A Linear and a ReLU."""

    _first = Linear


class ConvReLU1d(_WithReLU):
    """A Conv1d and a ReLU."""

    _first = Conv1d


class ConvReLU2d(_WithReLU):
    """A Conv2d and a ReLU."""

    _first = Conv2d


class ConvReLU3d(_WithReLU):
    """A Conv3d and a ReLU."""

    _first = Conv3d
