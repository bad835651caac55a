"""Modules that become one when a model is quantized."""

from __future__ import annotations

from rushlight import Tensor
from rushlight.nn import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    Conv1d,
    Conv2d,
    Conv3d,
    Linear,
    Module,
    ReLU,
    Sequential,
)

__all__ = [
    *("BNReLU2d", "BNReLU3d", "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d"),
    *("ConvBnReLU3d", "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearBn1d", "LinearReLU"),
]


class _Joined(Sequential):
    """Modules of the kinds that a class names, one behind the other."""

    _kinds: tuple[type[Module], ...]

    def __init__(self, *modules: Module) -> None:
        fits = len(modules) == len(self._kinds) and all(map(isinstance, modules, self._kinds))
        if not fits:
            wanted, given = (
                ", ".join(kind.__name__ for kind in kinds)
                for kinds in (self._kinds, map(type, modules))
            )
            raise AssertionError(f"{type(self).__name__}: expects {wanted}; got {given}")
        super().__init__(*modules)

    def forward(self, input: Tensor) -> Tensor:
        for i in range(len(self._kinds)):  # an observer may have joined them
            input = self[i](input)
        return input


class LinearReLU(_Joined):
    """A Linear and a ReLU."""

    _kinds = (Linear, ReLU)


class ConvReLU1d(_Joined):
    """A Conv1d and a ReLU."""

    _kinds = (Conv1d, ReLU)


class ConvReLU2d(_Joined):
    """A Conv2d and a ReLU."""

    _kinds = (Conv2d, ReLU)


class ConvReLU3d(_Joined):
    """A Conv3d and a ReLU."""

    _kinds = (Conv3d, ReLU)


class ConvBn1d(_Joined):
    """A Conv1d and a batch norm."""

    _kinds = (Conv1d, BatchNorm1d)


class ConvBn2d(_Joined):
    """A Conv2d and a batch norm."""

    _kinds = (Conv2d, BatchNorm2d)


class ConvBn3d(_Joined):
    """A Conv3d and a batch norm."""

    _kinds = (Conv3d, BatchNorm3d)


class ConvBnReLU1d(_Joined):
    """A Conv1d, a batch norm and a ReLU."""

    _kinds = (Conv1d, BatchNorm1d, ReLU)


class ConvBnReLU2d(_Joined):
    """A Conv2d, a batch norm and a ReLU."""

    _kinds = (Conv2d, BatchNorm2d, ReLU)


class ConvBnReLU3d(_Joined):
    """A Conv3d, a batch norm and a ReLU."""

    _kinds = (Conv3d, BatchNorm3d, ReLU)


class LinearBn1d(_Joined):
    """A Linear and a batch norm."""

    _kinds = (Linear, BatchNorm1d)


class BNReLU2d(_Joined):
    """A batch norm and a ReLU."""

    _kinds = (BatchNorm2d, ReLU)


class BNReLU3d(_Joined):
    """A batch norm and a ReLU."""

    _kinds = (BatchNorm3d, ReLU)
