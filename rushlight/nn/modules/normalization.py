"""Normalisations that look at one sample at a time."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight import _C
from rushlight._C import Size, Tensor
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.types import Device, _dtype

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class _Affine(Module):
    """Normalisations with a weight and a bias, each of which may be None."""

    def _add_affine(self, shape, weight, bias, device, dtype):
        for name, wanted in (("weight", weight), ("bias", bias)):
            if wanted:
                setattr(self, name, Parameter(_C.empty(shape, device=device, dtype=dtype)))
            else:
                self.register_parameter(name, None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1, bias 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


def _as_shape(normalized_shape):
    if isinstance(normalized_shape, int):
        return (normalized_shape,)
    return tuple(normalized_shape)


class LayerNorm(_Affine):
    """Normalises each sample over its last dims, then scales and shifts each of their elements.

    The same in training and in eval mode.

    Arguments:
        normalized_shape: the sizes of those dims, or one number for the last.
        eps: added to the variance.
        elementwise_affine: learn a factor and a summand per element.
        bias: whether there is a summand.
        device, dtype: where the parameters lie, and their dtype.

    Shape: the shape stays.

    Example:
        >>> nn.LayerNorm(3, bias=False)(rl.tensor([[1.0, 2.0, 3.0]]))
        tensor([[-1.2247,  0.0000,  1.2247]], grad_fn=<NativeLayerNormBackward0>)
    """

    __constants__: tuple[str, ...] = ("normalized_shape", "eps", "elementwise_affine")

    def __init__(self, normalized_shape: int | Sequence[int] | Size, eps: float = 1e-5,
                 elementwise_affine: bool = True, bias: bool = True, device: Device = None,
                 dtype: _dtype | None = None) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        affine = elementwise_affine
        self._add_affine(self.normalized_shape, affine, affine and bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divides each sample by the root of its mean square over the last dims, times a learned
    factor.

    Arguments:
        normalized_shape: the sizes of those dims, or one number for the last.
        eps: added to the mean square; None is the epsilon of the dtype.
        elementwise_affine: learn a factor per element.
        device, dtype: where the parameters lie, and their dtype.

    Shape: the shape stays.

    Example:
        >>> nn.RMSNorm(2, elementwise_affine=False)(rl.tensor([[3.0, 4.0]]))
        tensor([[0.8485, 1.1314]])
    """

    __constants__: tuple[str, ...] = ("normalized_shape", "eps", "elementwise_affine")

    def __init__(self, normalized_shape: int | Sequence[int] | Size, eps: float | None = None,
                 elementwise_affine: bool = True, device: Device = None,
                 dtype: _dtype | None = None) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(_C.empty(self.normalized_shape, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1."""
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(_Affine):
    """Normalises each sample over groups of channels and all that follows them.

    Does not depend on the batch, so it works with batches of one.

    Arguments:
        num_groups: how many groups; it divides num_channels.
        num_channels: C of (N, C, ...).
        eps: added to the variance.
        affine: learn a factor and a summand per channel.
        bias: whether there is a summand, where affine is set.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> nn.GroupNorm(2, 6, affine=False)(rl.zeros(1, 6, 4, 4)).shape
        rushlight.Size([1, 6, 4, 4])
    """

    __constants__: tuple[str, ...] = ("num_groups", "num_channels", "eps", "affine")

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True,
                 device: Device = None, dtype: _dtype | None = None, *,
                 bias: bool = True) -> None:  # fmt: skip
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(
                f"GroupNorm: {num_channels} channels cannot be divided into {num_groups} groups"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._add_affine(num_channels, affine, affine and bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(Module):
    """x / (k + alpha * mean of x^2 over `size` neighbouring channels) ^ beta.

    Arguments:
        size: over how many neighbouring channels.
        alpha, beta, k: as in the formula.

    Example:
        >>> nn.LocalResponseNorm(3, alpha=1.0, beta=1.0)(rl.ones(1, 3, 1))
        tensor([[[0.6000],
                 [0.5000],
                 [0.6000]]])
    """

    __constants__: tuple[str, ...] = ("size", "alpha", "beta", "k")

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """The older LocalResponseNorm of (N, C, H, W), kept for the models that were trained with it.

    x / (k + alpha * sum of x^2 over the window / size) ^ beta. The window is PyTorch's: channels
    behind it are taken off the sum, except for the very first, which stays in all sums.

    Arguments:
        size: over how many neighbouring channels.
        alpha, beta, k: as in the formula.

    Example:
        >>> nn.CrossMapLRN2d(3, alpha=1.0)(rl.ones(1, 3, 1, 1)).shape
        rushlight.Size([1, 3, 1, 1])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: expects 4 dims, got {list(input.shape)}")
        channels, reach = input.shape[1], (self.size - 1) // 2 + 1
        running = input.square().cumsum(1)
        last = (_C.arange(channels, device=input.device) + reach - 1).clamp_max(channels - 1)
        sums = running.index_select(1, last)
        if channels > reach + 1:  # from channel reach + 1 on, those from 1 on are taken off again
            dropped = running[:, 1 : channels - reach] - running[:, :1]
            sums = _C.cat([sums[:, : reach + 1], sums[:, reach + 1 :] - dropped], 1)
        return input / (self.k + self.alpha / self.size * sums) ** self.beta

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
