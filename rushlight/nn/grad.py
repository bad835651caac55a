"""Gradients of convolutions by themselves, given the gradient of the result."""

from rushlight import _C
from rushlight.autograd import enable_grad, grad

__all__ = """conv1d_input conv1d_weight conv2d_input conv2d_weight conv3d_input
conv3d_weight""".split()


def _by(convolution, wanted, sizes, other, grad_output, options):
    """The convolution is linear in both arguments, so its gradient may be taken at zero."""
    again = _C.is_grad_enabled() and (other.requires_grad or grad_output.requires_grad)
    with enable_grad():
        zeros = _C.zeros(sizes, dtype=other.dtype, device=other.device, requires_grad=True)
        pair = (zeros, other) if wanted == "input" else (other, zeros)
        out = convolution(*pair, None, *options)
        return grad(out, zeros, grad_output, create_graph=again)[0]


def conv1d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv1d by its input."""
    options = (stride, padding, dilation, groups)
    return _by(_C.conv1d, "input", input_size, weight, grad_output, options)


def conv1d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv1d by its weight."""
    options = (stride, padding, dilation, groups)
    return _by(_C.conv1d, "weight", weight_size, input, grad_output, options)


def conv2d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv2d by its input."""
    options = (stride, padding, dilation, groups)
    return _by(_C.conv2d, "input", input_size, weight, grad_output, options)


def conv2d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv2d by its weight."""
    options = (stride, padding, dilation, groups)
    return _by(_C.conv2d, "weight", weight_size, input, grad_output, options)


def conv3d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv3d by its input."""
    options = (stride, padding, dilation, groups)
    return _by(_C.conv3d, "input", input_size, weight, grad_output, options)


def conv3d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv3d by its weight."""
    options = (stride, padding, dilation, groups)
    return _by(_C.conv3d, "weight", weight_size, input, grad_output, options)
