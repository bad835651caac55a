"""Modules whose weights are rounded as those of a quantized model will be, while they train."""

from __future__ import annotations

from typing import Any

from rushlight import Tensor, nn
from rushlight.nn import functional as F

__all__ = ["Conv1d", "Conv2d", "Conv3d", "Linear"]


class _Pretends:
    """from_float takes a module over, parameters and all."""

    _FLOAT_MODULE: type[nn.Module]

    @classmethod
    def from_float(cls, mod: Any) -> nn.Module:
        """The module with the parameters of a float one that has a qconfig."""
        qconfig = getattr(mod, "qconfig", None)
        if qconfig is None:
            raise AssertionError(
                f"{cls.__name__}.from_float: the module has no qconfig; use prepare_qat"
            )
        made: Any = object.__new__(cls)
        nn.Module.__init__(made)
        made.__dict__.update({k: v for k, v in mod.__dict__.items() if k != "_modules"})
        made.qconfig = qconfig
        made.weight_fake_quant = qconfig.weight()
        return made

    def to_float(self) -> nn.Module:
        """The plain module again."""
        made: Any = object.__new__(self._FLOAT_MODULE)
        nn.Module.__init__(made)
        skip = ("_modules", "qconfig")
        made.__dict__.update({k: v for k, v in self.__dict__.items() if k not in skip})
        return made


class Linear(_Pretends, nn.Linear):
    """nn.Linear with a fake quantizer for its weight."""

    _FLOAT_MODULE = nn.Linear

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight_fake_quant(self.weight), self.bias)


class _Conv(_Pretends):
    _conv_forward: Any
    weight: Any
    bias: Any
    weight_fake_quant: Any

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias)


class Conv1d(_Conv, nn.Conv1d):
    """nn.Conv1d with a fake quantizer for its weight."""

    _FLOAT_MODULE = nn.Conv1d


class Conv2d(_Conv, nn.Conv2d):
    """nn.Conv2d with a fake quantizer for its weight."""

    _FLOAT_MODULE = nn.Conv2d


class Conv3d(_Conv, nn.Conv3d):
    """nn.Conv3d with a fake quantizer for its weight."""

    _FLOAT_MODULE = nn.Conv3d
