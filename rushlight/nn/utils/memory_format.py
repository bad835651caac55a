"""Memory formats of convolution weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rushlight._C import memory_format

if TYPE_CHECKING:
    from rushlight.nn.modules.module import Module

_M = TypeVar("_M", bound="Module")


__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module, memory_format, names):
    for each in module.modules():
        if any(cls.__name__ in names for cls in type(each).__mro__):
            each.weight.data = each.weight.detach().clone().contiguous(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: _M, memory_format: memory_format) -> _M:
    """Rearranges the weights of 2-d convolutions below the module.

    Arguments:
        module: the module.
        memory_format: the order of dims in memory.

    Example:
        >>> layer = nn.utils.convert_conv2d_weight_memory_format(nn.Conv2d(3, 4, 2),
        ...     rl.channels_last)
        >>> layer.weight.is_contiguous(memory_format=rl.channels_last)
        True
    """
    return _convert(module, memory_format, ("Conv2d", "ConvTranspose2d"))


def convert_conv3d_weight_memory_format(module: _M, memory_format: memory_format) -> _M:
    """Rearranges the weights of 3-d convolutions below the module.

    Arguments:
        module: the module.
        memory_format: the order of dims in memory.

    Example:
        >>> layer = nn.Conv3d(3, 4, 2)
        >>> layer = nn.utils.convert_conv3d_weight_memory_format(layer, rl.channels_last_3d)
        >>> layer.weight.is_contiguous(memory_format=rl.channels_last_3d)
        True
    """
    return _convert(module, memory_format, ("Conv3d", "ConvTranspose3d"))
