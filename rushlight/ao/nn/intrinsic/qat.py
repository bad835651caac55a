"""Layers that train together with the batch norm behind them, rounded as one quantized layer."""

from __future__ import annotations

from typing import Any

from rushlight import Tensor, nn
from rushlight.nn import functional as F
from rushlight.types import Self

__all__ = [
    *("ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d"),
    *("LinearBn1d", "freeze_bn_stats", "update_bn_stats"),
]


class _WithNorm:
    """The weight is rounded as it will be with the norm worked in, by the running statistics; what
    it gives is brought back before the norm, which sees the batch."""

    _with_relu = False
    bn: Any
    weight: Any
    bias: Any
    weight_fake_quant: Any

    def forward(self, input: Tensor) -> Tensor:
        """The norm of the layer's result (and relu of that)."""
        factor = self.bn.weight / (self.bn.running_var + self.bn.eps).sqrt()
        rows = [-1] + [1] * (self.weight.dim() - 1)
        columns = [1, -1] + [1] * (self.weight.dim() - 2)
        rounded = self.weight_fake_quant(self.weight * factor.reshape(rows))
        sums = self._with_weight(input, rounded) / factor.reshape(columns)
        if self.bias is not None:
            sums = sums + self.bias.reshape(columns)
        out = self.bn(sums)
        return out.relu() if self._with_relu else out

    def _with_weight(self, input: Tensor, weight: Tensor) -> Tensor:
        conv: Any = self
        made: Tensor = conv._conv_forward(input, weight, None)
        return made

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> nn.Module:
        """In place of a joined module that has a qconfig; it takes its parameters over."""
        if getattr(mod, "qconfig", None) is None:
            raise AssertionError(
                f"{cls.__name__}.from_float: the module has no qconfig; use prepare_qat"
            )
        made: Any = object.__new__(cls)
        nn.Module.__init__(made)
        made.__dict__.update({k: v for k, v in mod[0].__dict__.items() if k != "_modules"})
        made.bn, made.qconfig = mod[1], mod.qconfig
        made.weight_fake_quant = mod.qconfig.weight()
        made.freeze_bn = False
        made.train(mod.training)
        return made

    def update_bn_stats(self) -> Self:
        """The norm follows the batches again."""
        self.freeze_bn = False
        self.bn.train()
        return self

    def freeze_bn_stats(self) -> Self:
        """The norm stays with the statistics that it has."""
        self.freeze_bn = True
        self.bn.eval()
        return self

    def train(self, mode: bool = True) -> Self:
        """Training or evaluation; a norm that is frozen stays so."""
        module: Any = super()
        module.train(mode)
        if getattr(self, "freeze_bn", False):
            self.bn.eval()
        return self


class ConvBn1d(_WithNorm, nn.Conv1d):
    """A Conv1d and a batch norm."""


class ConvBn2d(_WithNorm, nn.Conv2d):
    """A Conv2d and a batch norm."""


class ConvBn3d(_WithNorm, nn.Conv3d):
    """A Conv3d and a batch norm."""


class ConvBnReLU1d(ConvBn1d):
    """A Conv1d, a batch norm and a ReLU."""

    _with_relu = True


class ConvBnReLU2d(ConvBn2d):
    """A Conv2d, a batch norm and a ReLU."""

    _with_relu = True


class ConvBnReLU3d(ConvBn3d):
    """A Conv3d, a batch norm and a ReLU."""

    _with_relu = True


class LinearBn1d(_WithNorm, nn.Linear):
    """A Linear and a batch norm."""

    def _with_weight(self, input: Tensor, weight: Tensor) -> Tensor:
        return F.linear(input, weight)


# As in PyTorch, a Linear with its norm is not among them: it has the methods.
_CONVOLUTIONS = (ConvBn1d, ConvBn2d, ConvBn3d)


def freeze_bn_stats(mod: nn.Module) -> None:
    """For model.apply: norms inside of convolutions stay with the statistics that they have."""
    if isinstance(mod, _CONVOLUTIONS):
        mod.freeze_bn_stats()


def update_bn_stats(mod: nn.Module) -> None:
    """For model.apply: norms inside of convolutions follow the batches again."""
    if isinstance(mod, _CONVOLUTIONS):
        mod.update_bn_stats()
