"""Folding a batch normalisation into the layer before it, for evaluation."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, TypeVar

from rushlight import _C
from rushlight._C import Tensor
from rushlight.nn.parameter import Parameter

if TYPE_CHECKING:
    from rushlight.nn.modules.module import Module

_M = TypeVar("_M", bound="Module")

__all__ = [
    "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights",
]  # fmt: skip


def fuse_conv_bn_weights(conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor,
                         bn_eps: float, bn_w: Tensor | None, bn_b: Tensor | None,
                         transpose: bool = False) -> tuple[Parameter, Parameter]:  # fmt: skip
    """Weight and bias of the convolution that does both.

    Arguments:
        conv_w, conv_b: weight and bias of the convolution.
        bn_rm, bn_rv, bn_eps: running mean, running variance and eps of the batch norm.
        bn_w, bn_b: its weight and bias.
        transpose: the convolution is a transposed one.

    Example:
        >>> w, b = nn.utils.fuse_conv_bn_weights(rl.ones(2, 1, 1, 1), None, rl.zeros(2),
        ...     rl.ones(2), 0.0,
        ...     rl.full((2,), 3.0), rl.ones(2), transpose=False)
        >>> w.flatten(), b
        (tensor([3., 3.]), Parameter containing:
        tensor([1., 1.]))
    """
    conv_b = _C.zeros_like(bn_rm) if conv_b is None else conv_b
    bn_w = _C.ones_like(bn_rm) if bn_w is None else bn_w
    bn_b = _C.zeros_like(bn_rm) if bn_b is None else bn_b
    scale = bn_w * (bn_rv + bn_eps).rsqrt()
    shape = [1, -1] if transpose else [-1, 1]
    shape += [1] * (conv_w.dim() - 2)
    weight = (conv_w * scale.reshape(shape)).to(conv_w.dtype)
    bias = ((conv_b - bn_rm) * scale + bn_b).to(conv_b.dtype)
    return (
        Parameter(weight.detach(), conv_w.requires_grad),
        Parameter(bias.detach(), conv_b.requires_grad),
    )


def fuse_linear_bn_weights(linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor,
                           bn_eps: float, bn_w: Tensor,
                           bn_b: Tensor) -> tuple[Parameter, Parameter]:  # fmt: skip
    """Weight and bias of the linear layer that does both.

    Arguments:
        linear_w, linear_b: weight and bias of the linear layer.
        bn_rm, bn_rv, bn_eps: running mean, running variance and eps of the batch norm.
        bn_w, bn_b: its weight and bias.

    Example:
        >>> w, b = nn.utils.fuse_linear_bn_weights(rl.ones(2, 1), rl.zeros(2), rl.zeros(2),
        ...     rl.ones(2), 0.0,
        ...     rl.full((2,), 3.0), rl.ones(2))
        >>> w.flatten(), b
        (tensor([3., 3.]), Parameter containing:
        tensor([1., 1.]))
    """
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def _check_eval(*modules):
    if any(module.training for module in modules):
        raise AssertionError("fusion is for evaluation: call eval() on both modules first")


def _numbers_of(op: str, bn: Any) -> tuple[Any, Any, Any, Any, Any]:
    """What a batch normalisation computes with."""
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError(f"{op}: the batch norm has no running statistics")
    return bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias


def fuse_conv_bn_eval(conv: _M, bn: Module, transpose: bool = False) -> _M:
    """A copy of the convolution that does the batch normalisation too.

    Arguments:
        conv: the convolution.
        bn: the batch norm behind it, in eval mode.
        transpose: the convolution is a transposed one.

    Example:
        >>> conv, bn = nn.Conv2d(3, 4, 1).eval(), nn.BatchNorm2d(4).eval()
        >>> x = rl.randn(1, 3, 5, 5)
        >>> rl.allclose(nn.utils.fuse_conv_bn_eval(conv, bn, transpose=False)(x), bn(conv(x)),
        ...     atol=1e-5)
        True
    """
    _check_eval(conv, bn)
    fused = copy.deepcopy(conv)
    numbers = _numbers_of("fuse_conv_bn_eval", bn)
    fused.weight, fused.bias = fuse_conv_bn_weights(fused.weight, fused.bias, *numbers, transpose)
    return fused


def fuse_linear_bn_eval(linear: _M, bn: Module) -> _M:
    """A copy of the linear layer that does the batch normalisation too.

    Arguments:
        linear: the linear layer.
        bn: the batch norm behind it, in eval mode.

    Example:
        >>> linear, bn = nn.Linear(3, 4).eval(), nn.BatchNorm1d(4).eval()
        >>> x = rl.randn(2, 3)
        >>> rl.allclose(nn.utils.fuse_linear_bn_eval(linear, bn)(x), bn(linear(x)), atol=1e-5)
        True
    """
    _check_eval(linear, bn)
    fused = copy.deepcopy(linear)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            f"fuse_linear_bn_eval: {linear.out_features} features do not fit a batch norm of "
            f"{bn.num_features}"
        )
    numbers = _numbers_of("fuse_linear_bn_eval", bn)
    fused.weight, fused.bias = fuse_linear_bn_weights(fused.weight, fused.bias, *numbers)
    return fused
