"""Activations as modules."""

from __future__ import annotations

import warnings
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.modules.attention import MultiheadAttention as MultiheadAttention
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.types import Device, _dtype

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "MultiheadAttention",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]  # fmt: skip


class _InPlace(Module):
    """An activation whose only argument is whether it works in place."""

    __constants__: tuple[str, ...] = ("inplace",)

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ReLU(_InPlace):
    """max(x, 0).

    Arguments:
        inplace: write the result into the input.

    Example:
        >>> nn.ReLU(inplace=True)(rl.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, self.inplace)


class SELU(_InPlace):
    """elu with the numbers that keep mean 0 and variance 1.

    Arguments:
        inplace: write the result into the input.

    Example:
        >>> nn.SELU(inplace=True)(rl.tensor([-1.0, 1.0]))
        tensor([-1.1113,  1.0507])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class SiLU(_InPlace):
    """x * sigmoid(x).

    Arguments:
        inplace: write the result into the input.

    Example:
        >>> nn.SiLU(inplace=True)(rl.tensor([-1.0, 1.0]))
        tensor([-0.2689,  0.7311])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


class Mish(_InPlace):
    """x * tanh(softplus(x)).

    Arguments:
        inplace: write the result into the input.

    Example:
        >>> nn.Mish(inplace=True)(rl.tensor([-1.0, 1.0]))
        tensor([-0.3034,  0.8651])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, self.inplace)


class Hardsigmoid(_InPlace):
    """clamp(x + 3, 0, 6) / 6.

    Arguments:
        inplace: write the result into the input.

    Example:
        >>> nn.Hardsigmoid(inplace=True)(rl.tensor([-4.0, 1.5]))
        tensor([0.0000, 0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardswish(_InPlace):
    """x * clamp(x + 3, 0, 6) / 6.

    Arguments:
        inplace: write the result into the input.

    Example:
        >>> nn.Hardswish(inplace=True)(rl.tensor([-4.0, 1.0, 4.0]))
        tensor([-0.0000, 0.6667, 4.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Threshold(Module):
    """x where it is above the threshold, value elsewhere.

    Arguments:
        threshold: elements above it stay.
        value: what the others become.
        inplace: write the result into the input.

    Example:
        >>> nn.Threshold(0.5, 0.0)(rl.tensor([0.1, 2.0]))
        tensor([0., 2.])
    """

    __constants__: tuple[str, ...] = ("threshold", "value", "inplace")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}" + _inplace(self)


def _inplace(module):
    return ", inplace=True" if module.inplace else ""


class RReLU(Module):
    """x above zero, x times a random slope below.

    Arguments:
        lower, upper: the range of slopes.
        inplace: write the result into the input.

    Example:
        >>> nn.RReLU(lower=0.1, upper=0.3).eval()(rl.tensor([-1.0, 2.0]))
        tensor([-0.2000,  2.0000])
    """

    __constants__: tuple[str, ...] = ("lower", "upper", "inplace")

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}" + _inplace(self)


class Hardtanh(Module):
    """x between min_val and max_val.

    Arguments:
        min_val: lower bound.
        max_val: upper bound.
        inplace: write the result into the input.
        min_value, max_value: old spellings of the bounds.

    Example:
        >>> nn.Hardtanh(-2.0, 2.0)(rl.tensor([-3.0, 0.5, 3.0]))
        tensor([-2.0000,  0.5000,  2.0000])
    """

    __constants__: tuple[str, ...] = ("min_val", "max_val", "inplace")

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False,
                 min_value: float | None = None,
                 max_value: float | None = None) -> None:  # fmt: skip
        super().__init__()
        for old, new in (("min_value", min_value), ("max_value", max_value)):
            if new is not None:
                warnings.warn(
                    f"Hardtanh: {old} is deprecated, use {old[:3]}_val", FutureWarning, stacklevel=2
                )
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if not self.max_val > self.min_val:
            raise AssertionError(
                f"Hardtanh: max_val {self.max_val} must be greater than min_val {self.min_val}"
            )

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}" + _inplace(self)


class ReLU6(Hardtanh):
    """x between 0 and 6.

    Arguments:
        inplace: write the result into the input.

    Example:
        >>> nn.ReLU6(inplace=True)(rl.tensor([-1.0, 9.0]))
        tensor([0., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class _WithAlpha(Module):
    __constants__: tuple[str, ...] = ("alpha", "inplace")

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + _inplace(self)


class ELU(_WithAlpha):
    """x above zero, alpha * (exp(x) - 1) below.

    Arguments:
        alpha: minus the value that the function approaches far below zero.
        inplace: write the result into the input.

    Example:
        >>> nn.ELU(alpha=0.5)(rl.tensor([-1.0, 1.0]))
        tensor([-0.3161,  1.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)


class CELU(_WithAlpha):
    """x above zero, alpha * (exp(x / alpha) - 1) below.

    Arguments:
        alpha: minus the value that the function approaches far below zero.
        inplace: write the result into the input.

    Example:
        >>> nn.CELU(alpha=2.0)(rl.tensor([-1.0, 1.0]))
        tensor([-0.7869,  1.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


class LeakyReLU(Module):
    """x above zero, x * negative_slope below.

    Arguments:
        negative_slope: the slope below zero.
        inplace: write the result into the input.

    Example:
        >>> nn.LeakyReLU(0.1)(rl.tensor([-1.0, 2.0]))
        tensor([-0.1000,  2.0000])
    """

    __constants__: tuple[str, ...] = ("inplace", "negative_slope")

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}" + _inplace(self)


class Sigmoid(Module):
    """1 / (1 + exp(-x)).

    Example:
        >>> nn.Sigmoid()(rl.tensor([-2.0, 0.0]))
        tensor([0.1192, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return _C.sigmoid(input)


class Tanh(Module):
    """The hyperbolic tangent.

    Example:
        >>> nn.Tanh()(rl.tensor([-1.0, 0.0]))
        tensor([-0.7616,  0.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return _C.tanh(input)


class LogSigmoid(Module):
    """log(sigmoid(x)).

    Example:
        >>> nn.LogSigmoid()(rl.tensor([0.0, -100.0]))
        tensor([  -0.6931, -100.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Softsign(Module):
    """x / (1 + |x|).

    Example:
        >>> nn.Softsign()(rl.tensor([-3.0, 1.0]))
        tensor([-0.7500,  0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Tanhshrink(Module):
    """x - tanh(x).

    Example:
        >>> nn.Tanhshrink()(rl.tensor([1.0]))
        tensor([0.2384])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class GLU(Module):
    """The first half along dim times the sigmoid of the second.

    Arguments:
        dim: the dim that is halved.

    Example:
        >>> nn.GLU(dim=1)(rl.tensor([[1.0, 2.0, 0.0, 100.0]]))
        tensor([[0.5000, 2.0000]])
    """

    __constants__: tuple[str, ...] = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class GELU(Module):
    """x * Phi(x), Phi the normal distribution.

    Arguments:
        approximate: 'none' for the exact function, 'tanh' for the approximation that GPT-2 was
            trained with.

    Example:
        >>> nn.GELU(approximate="tanh")(rl.tensor([-1.0, 1.0]))
        tensor([-0.1588,  0.8412])
    """

    __constants__: tuple[str, ...] = ("approximate",)

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class _Shrink(Module):
    __constants__: tuple[str, ...] = ("lambd",)

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink):
    """x, but zero between -lambd and lambd.

    Arguments:
        lambd: half the width of the gap.

    Example:
        >>> nn.Hardshrink(0.3)(rl.tensor([-1.0, 0.2]))
        tensor([-1.,  0.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """x moved towards zero by lambd.

    Arguments:
        lambd: how far elements move towards zero.

    Example:
        >>> nn.Softshrink(0.3)(rl.tensor([-1.0, 0.2]))
        tensor([-0.7000,  0.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)


class Softplus(Module):
    """log(1 + exp(beta x)) / beta.

    Arguments:
        beta: how sharply it bends at zero.
        threshold: where beta * x is above it, x itself is returned.

    Example:
        >>> nn.Softplus(beta=2)(rl.tensor([-1.0, 1.0]))
        tensor([0.0635, 1.0635])
    """

    __constants__: tuple[str, ...] = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class PReLU(Module):
    """x above zero, x times a learnt weight below.

    Arguments:
        num_parameters: 1, or as many as the input has channels.
        init: the slope to begin with.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> nn.PReLU(init=0.1)(rl.tensor([-1.0, 2.0]))
        tensor([-0.1000,  2.0000], grad_fn=<PreluKernelBackward0>)
    """

    __constants__: tuple[str, ...] = ("num_parameters",)

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Device = None,
                 dtype: _dtype | None = None) -> None:  # fmt: skip
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(_C.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets all weights to the init of the constructor."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class _AlongDim(Module):
    __constants__: tuple[str, ...] = ("dim",)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("dim", None)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_AlongDim):
    """exp(x) / sum of exp(x) along dim.

    Arguments:
        dim: the dim along which the results add up to 1.

    Example:
        >>> nn.Softmax(dim=1)(rl.tensor([[1.0, 2.0, 3.0]]))
        tensor([[0.0900, 0.2447, 0.6652]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)


class Softmin(_AlongDim):
    """softmax of -x.

    Arguments:
        dim: the dim along which the results add up to 1.

    Example:
        >>> nn.Softmin(dim=1)(rl.tensor([[1.0, 2.0, 3.0]]))
        tensor([[0.6652, 0.2447, 0.0900]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim, _stacklevel=5)


class LogSoftmax(_AlongDim):
    """The logarithm of softmax.

    Arguments:
        dim: the dim along which the exponentials of the results add up to 1.

    Example:
        >>> nn.LogSoftmax(dim=1)(rl.tensor([[1.0, 2.0, 3.0]]))
        tensor([[-2.4076, -1.4076, -0.4076]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)


class Softmax2d(Module):
    """softmax over the channels of (N, C, H, W) or (C, H, W).

    Example:
        >>> nn.Softmax2d()(rl.zeros(1, 2, 1, 1)).flatten()
        tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expects an input of 3 or 4 dims, got {list(input.shape)}")
        return F.softmax(input, -3)
