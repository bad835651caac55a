"""Dropout: parts of the input become zero at random while training."""

from __future__ import annotations

import warnings

from rushlight import _C
from rushlight._C import Tensor

__all__ = [
    "alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout",
]  # fmt: skip

# What selu tends to for large negative inputs; alpha dropout puts it where others put zero.
_SELU_FLOOR = -1.7580993408473766


def _check_probability(name, p):
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"{name}: the probability must be between 0 and 1, got {p}")


def _check_floating(input):
    if not (input.is_floating_point() or input.is_complex()):
        raise _C.DTypeError(f"dropout: expects a floating point input, got {input.dtype}")


def _kept(input, shape, p):
    """A mask of ones and zeros; an element is one with probability 1 - p."""
    return _C.empty(shape, dtype=input.dtype, device=input.device).bernoulli_(1 - p)


def _without_chance(input, p, inplace):
    """The result where all elements are kept, or none; else None."""
    if p == 0 or input.numel() == 0:
        return input
    _check_floating(input)
    if p == 1:
        return input.zero_() if inplace else input * 0.0
    return None


def _drop(input, shape, p, inplace):
    certain = _without_chance(input, p, inplace)
    if certain is not None:
        return certain
    if not inplace:
        return _C._dropout(input, shape, p)
    return input.mul_(_kept(input, shape, p).div_(1 - p))


def _drop_alpha(input, shape, p, inplace):
    certain = _without_chance(input, p, inplace)
    if certain is not None:
        return certain
    # Keeps mean 0 and variance 1: scale and shift after the dropped ones are set to the floor.
    scale = ((1 - p) * (1 + p * _SELU_FLOOR**2)) ** -0.5
    shift = -scale * p * _SELU_FLOOR
    if not inplace and input.is_floating_point():
        return _C._drop(input, shape, p, scale, shift, shift + scale * _SELU_FLOOR)[0]
    kept = _kept(input, shape, p)
    shift = (1 - kept).mul_(_SELU_FLOOR * scale).add_(shift)
    kept = kept.mul_(scale)
    return input.mul_(kept).add_(shift) if inplace else input * kept + shift


def _per_channel(input):
    if input.dim() < 2:
        raise RuntimeError(
            f"feature dropout: the input needs a batch and a channel dim, got {list(input.shape)}"
        )
    return (*input.shape[:2], *[1] * (input.dim() - 2))


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes elements with probability p and scales the others by 1 / (1 - p).

    Only while training: a network that is evaluated must not drop anything, so pass
    `self.training` or use nn.Dropout.

    Arguments:
        input: the tensor to work on.
        p: the probability of dropping an element.
        training: whether dropout is active.
        inplace: write the result into the input.

    Raises: ValueError if p is not between 0 and 1.

    Example:
        >>> x = F.dropout(rl.ones(10000), p=0.25)
        >>> x.unique()
        tensor([0.0000, 1.3333])
        >>> F.dropout(rl.ones(3), p=0.25, training=False)
        tensor([1., 1., 1.])
    """
    _check_probability("dropout", p)
    if not training:
        return input
    return _drop(input, input.shape, p, inplace)


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout that keeps mean and variance of what selu gives.

    Dropped elements take the value that selu approaches far below zero.

    Arguments:
        input: the tensor to work on.
        p: the probability of dropping an element.
        training: whether dropout is active; False by default, unlike that of dropout.
        inplace: write the result into the input.

    Example:
        >>> F.alpha_dropout(rl.ones(3), p=0.5, training=False)
        tensor([1., 1., 1.])
    """
    _check_probability("alpha_dropout", p)
    if not training:
        return input
    return _drop_alpha(input, input.shape, p, inplace)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """alpha_dropout of whole channels.

    Arguments:
        input: (N, C, ...).
        p: the probability of dropping a channel.
        training: whether dropout is active; False by default.
        inplace: write the result into the input.

    Example:
        >>> F.feature_alpha_dropout(rl.ones(1, 2, 3), p=0.5, training=False).shape
        rushlight.Size([1, 2, 3])
    """
    _check_probability("feature_alpha_dropout", p)
    if not training:
        return input
    return _drop_alpha(input, _per_channel(input), p, inplace)


def _drop_channels(name, input, p, training, inplace, spatial):
    _check_probability(name, p)
    dims = input.dim()
    if dims not in (spatial + 1, spatial + 2):
        if spatial == 1:
            raise RuntimeError(
                f"{name}: expected (N, C, L) or (C, L), got shape {list(input.shape)}"
            )
        warnings.warn(
            f"{name}: expected an input of {spatial + 1} (no batch) or {spatial + 2} dims, got "
            f"{dims}; the first two are taken as batch and channels",
            stacklevel=3,
        )
    if not training:
        return input
    if dims == spatial + 1 and spatial != 2:
        # Without a batch: channels come first. (dropout2d keeps PyTorch's reading, see there.)
        shape = (input.shape[0], *[1] * spatial)
        return _drop(input, shape, p, inplace)
    return _drop(input, _per_channel(input), p, inplace)


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Dropout of whole channels of (N, C, L) or (C, L).

    Arguments:
        input: (N, C, L) or (C, L).
        p: the probability of dropping a channel.
        training: whether dropout is active.
        inplace: write the result into the input.

    Example:
        >>> F.dropout1d(rl.ones(1, 2, 3), p=1.0)
        tensor([[[0., 0., 0.],
                 [0., 0., 0.]]])
    """
    return _drop_channels("dropout1d", input, p, training, inplace, 1)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Dropout of whole channels of (N, C, H, W); with 3 dims, of (N, C, L).

    Arguments:
        input: (N, C, H, W), or (N, C, L).
        p: the probability of dropping a channel.
        training: whether dropout is active.
        inplace: write the result into the input.

    Example:
        >>> F.dropout2d(rl.ones(1, 2, 1, 2), p=1.0)
        tensor([[[[0., 0.]],
        <BLANKLINE>
                 [[0., 0.]]]])
    """
    if input.dim() == 3:
        warnings.warn(
            "dropout2d: a 3-d input is read as (N, C, L), not as (C, H, W); use dropout1d to say "
            "so",
            stacklevel=2,
        )
    return _drop_channels("dropout2d", input, p, training, inplace, 2)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W).

    Arguments:
        input: (N, C, D, H, W) or (C, D, H, W).
        p: the probability of dropping a channel.
        training: whether dropout is active.
        inplace: write the result into the input.

    Example:
        >>> F.dropout3d(rl.ones(1, 1, 1, 1, 2), p=1.0)
        tensor([[[[[0., 0.]]]]])
    """
    return _drop_channels("dropout3d", input, p, training, inplace, 3)
