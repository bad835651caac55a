"""Forms of softmax that PyTorch keeps behind an underscore and programs call all the same."""

from rushlight import _C

__all__ = [
    "_log_softmax",
    "_log_softmax_backward_data",
    "_masked_softmax",
    "_safe_softmax",
    "_softmax",
    "_softmax_backward_data",
]


def _softmax(self, dim, half_to_float):
    """softmax, in float32 for float16 when asked."""
    return self.softmax(dim, dtype=_C.float32 if half_to_float else None)


def _log_softmax(self, dim, half_to_float):
    """log_softmax, in float32 for float16 when asked."""
    return self.log_softmax(dim, dtype=_C.float32 if half_to_float else None)


def _wide(x):
    """Half precision is computed with in float32, and rounded once."""
    return x.float() if x.dtype in (_C.float16, _C.bfloat16) else x


def _in_dtype_of_input(grad, input_dtype):
    """A softmax in float32 of a half tensor has a half gradient; others keep their own dtype."""
    return grad.to(input_dtype) if input_dtype in (_C.float16, _C.bfloat16) else grad


def _softmax_backward_data(grad_output, output, dim, input_dtype):
    """The gradient of softmax, from its result."""
    output = _wide(output)
    product = _wide(grad_output) * output
    grad = (product - output * product.sum(dim, keepdim=True)).to(grad_output.dtype)
    return _in_dtype_of_input(grad, input_dtype)


def _log_softmax_backward_data(grad_output, output, dim, input_dtype):
    """The gradient of log_softmax, from its result."""
    wide = _wide(grad_output)
    grad = (wide - _wide(output).exp() * wide.sum(dim, keepdim=True)).to(grad_output.dtype)
    return _in_dtype_of_input(grad, input_dtype)


def _safe_softmax(self, dim, dtype=None):
    """softmax that gives zeros, not nan, for rows of -inf."""
    nothing = (self == -float("inf")).all(dim, keepdim=True)
    # Such rows are made finite first: their gradient would be nan otherwise, not zero.
    found = self.masked_fill(nothing, 0.0).softmax(dim, dtype=dtype)
    return found.masked_fill(nothing, 0.0)


def _masked_softmax(self, mask, dim=None, mask_type=None):
    """softmax over the elements whose mask is false."""
    return self.masked_fill(mask, -float("inf")).softmax(-1 if dim is None else dim)
