"""Gradients of convolutions by themselves, given the gradient of the result."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight import _C
from rushlight._C import Tensor
from rushlight.autograd import enable_grad, grad

__all__ = [
    "conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input",
    "conv3d_weight",
]  # fmt: skip


def _by(convolution, wanted, sizes, other, grad_output, options):
    """The convolution is linear in both arguments, so its gradient may be taken at zero."""
    again = _C.is_grad_enabled() and (other.requires_grad or grad_output.requires_grad)
    with enable_grad():
        zeros = _C.zeros(sizes, dtype=other.dtype, device=other.device, requires_grad=True)
        pair = (zeros, other) if wanted == "input" else (other, zeros)
        out = convolution(*pair, None, *options)
        return grad(out, zeros, grad_output, create_graph=again)[0]


def conv1d_input(input_size: Sequence[int], weight: Tensor, grad_output: Tensor,
                 stride: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
                 dilation: int | Sequence[int] = 1, groups: int = 1) -> Tensor:  # fmt: skip
    """The gradient of conv1d by its input."""
    options = (stride, padding, dilation, groups)
    return _by(_C.conv1d, "input", input_size, weight, grad_output, options)


def conv1d_weight(input: Tensor, weight_size: Sequence[int], grad_output: Tensor,
                  stride: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
                  dilation: int | Sequence[int] = 1, groups: int = 1) -> Tensor:  # fmt: skip
    """The gradient of conv1d by its weight."""
    options = (stride, padding, dilation, groups)
    return _by(_C.conv1d, "weight", weight_size, input, grad_output, options)


def conv2d_input(input_size: Sequence[int], weight: Tensor, grad_output: Tensor,
                 stride: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
                 dilation: int | Sequence[int] = 1, groups: int = 1) -> Tensor:  # fmt: skip
    """The gradient of conv2d by its input."""
    options = (stride, padding, dilation, groups)
    return _by(_C.conv2d, "input", input_size, weight, grad_output, options)


def conv2d_weight(input: Tensor, weight_size: Sequence[int], grad_output: Tensor,
                  stride: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
                  dilation: int | Sequence[int] = 1, groups: int = 1) -> Tensor:  # fmt: skip
    """The gradient of conv2d by its weight."""
    options = (stride, padding, dilation, groups)
    return _by(_C.conv2d, "weight", weight_size, input, grad_output, options)


def conv3d_input(input_size: Sequence[int], weight: Tensor, grad_output: Tensor,
                 stride: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
                 dilation: int | Sequence[int] = 1, groups: int = 1) -> Tensor:  # fmt: skip
    """The gradient of conv3d by its input."""
    options = (stride, padding, dilation, groups)
    return _by(_C.conv3d, "input", input_size, weight, grad_output, options)


def conv3d_weight(input: Tensor, weight_size: Sequence[int], grad_output: Tensor,
                  stride: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
                  dilation: int | Sequence[int] = 1, groups: int = 1) -> Tensor:  # fmt: skip
    """The gradient of conv3d by its weight."""
    options = (stride, padding, dilation, groups)
    return _by(_C.conv3d, "weight", weight_size, input, grad_output, options)
