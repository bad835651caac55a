"""The layer inside a joined module, with what follows it worked in."""

from __future__ import annotations

from typing import Any

from rushlight import Tensor
from rushlight.nn import Linear, Sequential
from rushlight.nn.utils.fusion import fuse_conv_bn_weights, fuse_linear_bn_weights


def joined_parts(mod: Any) -> tuple[Any, Tensor, Tensor | None]:
    """The layer, and its weight and bias: those of mod, of the first of a pair, or of a layer that
    was trained with its batch norm, which goes into them."""
    inner = mod[0] if isinstance(mod, Sequential) else mod
    inner.qconfig = mod.qconfig
    weight, bias = inner.weight.detach().float(), inner.bias
    norm = getattr(inner, "bn", None)
    if norm is not None:
        about = (norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias)
        fold = fuse_linear_bn_weights if isinstance(inner, Linear) else fuse_conv_bn_weights
        weight, bias = fold(weight, bias, *about)
    return inner, weight.detach(), None if bias is None else bias.detach().float()
