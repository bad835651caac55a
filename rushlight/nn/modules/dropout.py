"""Dropout as modules."""

from __future__ import annotations

from collections.abc import Callable

from rushlight._C import Tensor
from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module

__all__ = [
    "AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout",
]  # fmt: skip


class _DropoutNd(Module):
    __constants__: tuple[str, ...] = ("p", "inplace")
    _drop: Callable[..., Tensor]  # the function of nn.functional

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(
                f"{type(self).__name__}: the probability must be between 0 and 1, got {p}"
            )
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return self._drop(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Zeroes elements with probability p while training, and scales the others by 1 / (1 - p).

    In eval mode it does nothing.

    Arguments:
        p: the probability of dropping an element.
        inplace: write the result into the input.

    Example:
        >>> layer = nn.Dropout(p=0.5)
        >>> layer(rl.ones(1000)).unique()
        tensor([0., 2.])
        >>> layer.eval()(rl.ones(3))
        tensor([1., 1., 1.])
    """

    _drop = staticmethod(F.dropout)


class Dropout1d(_DropoutNd):
    """Zeroes whole channels of (N, C, L) at random while training.

    Arguments:
        p: the probability of dropping a channel.
        inplace: write the result into the input.

    Example:
        >>> nn.Dropout1d(p=1.0)(rl.ones(1, 2, 3))
        tensor([[[0., 0., 0.],
                 [0., 0., 0.]]])
    """

    _drop = staticmethod(F.dropout1d)


class Dropout2d(_DropoutNd):
    """Zeroes whole channels of (N, C, H, W) at random while training.

    Arguments:
        p: the probability of dropping a channel.
        inplace: write the result into the input.

    Example:
        >>> nn.Dropout2d(p=1.0)(rl.ones(1, 2, 1, 2))
        tensor([[[[0., 0.]],
        <BLANKLINE>
                 [[0., 0.]]]])
    """

    _drop = staticmethod(F.dropout2d)


class Dropout3d(_DropoutNd):
    """Zeroes whole channels of (N, C, D, H, W) at random while training.

    Arguments:
        p: the probability of dropping a channel.
        inplace: write the result into the input.

    Example:
        >>> nn.Dropout3d(p=1.0)(rl.ones(1, 1, 1, 1, 2))
        tensor([[[[[0., 0.]]]]])
    """

    _drop = staticmethod(F.dropout3d)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean and variance of what SELU gives.

    Arguments:
        p: the probability of dropping an element.
        inplace: write the result into the input.

    Example:
        >>> nn.AlphaDropout(p=0.2).eval()(rl.ones(3))
        tensor([1., 1., 1.])
    """

    _drop = staticmethod(F.alpha_dropout)


class FeatureAlphaDropout(_DropoutNd):
    """AlphaDropout of whole channels.

    Arguments:
        p: the probability of dropping a channel.
        inplace: write the result into the input.

    Example:
        >>> nn.FeatureAlphaDropout(p=0.2).eval()(rl.ones(1, 2, 2)).shape
        rushlight.Size([1, 2, 2])
    """

    _drop = staticmethod(F.feature_alpha_dropout)
