"""Normalisations: mean 0 and variance 1 over some dims."""

from rushlight import _C
from rushlight.autograd import no_grad
from rushlight.nn.functional._reduction import check_floating
from rushlight.nn.functional.padding import pad

__all__ = """batch_norm group_norm instance_norm layer_norm local_response_norm rms_norm""".split()


def _wide(input):
    """Half precision is too coarse for sums of squares: they are taken in float32."""
    return input.float() if input.dtype in (_C.float16, _C.bfloat16) else input


def _standardize(input, dims, eps):
    var, mean = _C.var_mean(input, dims, correction=0, keepdim=True)
    return (input - mean) * (var + eps).rsqrt()


def _check_shape(name, input, normalized_shape, **tensors):
    if isinstance(normalized_shape, int):
        raise TypeError(
            f"{name}: normalized_shape must be a tuple of ints, got the int {normalized_shape}"
        )
    shape = tuple(normalized_shape)
    if not shape:
        raise RuntimeError(f"{name}: normalized_shape must name at least one dim, got ()")
    if tuple(input.shape[-len(shape) :]) != shape or input.dim() < len(shape):
        raise _C.ShapeError(
            f"{name}: the last dims of the input must be normalized_shape {list(shape)}, got an "
            f"input of shape {list(input.shape)}"
        )
    for label, tensor in tensors.items():
        if tensor is not None and tuple(tensor.shape) != shape:
            raise _C.ShapeError(
                f"{name}: the {label} must have shape {list(shape)}, got {list(tensor.shape)}"
            )
    check_floating(name, input)
    return tuple(range(-len(shape), 0))


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Normalises over the last dims, then weight and bias for each of their elements."""
    dims = _check_shape("layer_norm", input, normalized_shape, weight=weight, bias=bias)
    out = _standardize(_wide(input), dims, eps)
    if weight is not None:
        out = out * weight
    if bias is not None:
        out = out + bias
    return out if out.dtype == input.dtype else out.to(input.dtype)


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """x / sqrt(mean(x^2) + eps) over the last dims, times weight."""
    dims = _check_shape("rms_norm", input, normalized_shape, weight=weight)
    if eps is None:
        eps = _C.finfo(input.dtype).eps
    wide = _wide(input)
    out = wide * ((wide * wide).mean(dims, keepdim=True) + eps).rsqrt()
    if weight is not None:
        out = out * weight
    return out if out.dtype == input.dtype else out.to(input.dtype)


def _per_channel(tensor, input):
    return tensor.view(1, -1, *[1] * (input.dim() - 2))


def _check_channels(name, input, **tensors):
    channels = input.shape[1]
    for label, tensor in tensors.items():
        if tensor is not None and tuple(tensor.shape) != (channels,):
            raise _C.ShapeError(
                f"{name}: the {label} must have one number for each of the {channels} channels, "
                f"got shape {list(tensor.shape)}"
            )


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """Normalises each sample over groups of channels and all that follows."""
    if input.dim() < 2:
        raise _C.ShapeError(
            f"group_norm: the input needs a batch and a channel dim, got {list(input.shape)}"
        )
    batch, channels = input.shape[:2]
    if num_groups <= 0 or channels % num_groups:
        raise _C.ShapeError(
            f"group_norm: {channels} channels cannot be divided into {num_groups} groups; the "
            f"input has shape {list(input.shape)}"
        )
    _check_channels("group_norm", input, weight=weight, bias=bias)
    check_floating("group_norm", input)
    values = input.numel() // max(batch * num_groups, 1)
    if batch * values == 1 and input.numel():
        raise ValueError(
            "group_norm: expected more than 1 value per channel when training, got an input of "
            f"shape {list(input.shape)}"
        )
    if input.numel() == 0:
        out = input * 1.0
    else:
        out = _standardize(_wide(input).reshape(batch, num_groups, -1), (2,), eps)
        out = out.view(input.shape)
    if weight is not None:
        out = out * _per_channel(weight, input)
    if bias is not None:
        out = out + _per_channel(bias, input)
    return out if out.dtype == input.dtype else out.to(input.dtype)


def _move(running, value, momentum):
    """running = (1 - momentum) * running + momentum * value, in place."""
    running.mul_(1 - momentum).add_(value.to(running.dtype), alpha=momentum)


def batch_norm(
    input,
    running_mean,
    running_var,
    weight=None,
    bias=None,
    training=False,
    momentum=0.1,
    eps=1e-5,
):
    """Normalises each channel over the batch and all that follows the channel dim.

    When training, by the batch's own mean and variance, which move the running ones; else by these.
    """
    if input.dim() < 2:
        raise _C.ShapeError(
            f"batch_norm: the input needs a batch and a channel dim, got {list(input.shape)}"
        )
    check_floating("batch_norm", input)
    _check_channels("batch_norm", input, running_mean=running_mean, running_var=running_var,
                    weight=weight, bias=bias)  # fmt: skip
    if training:
        count = input.numel() // max(input.shape[1], 1)
        if count <= 1:
            raise ValueError(
                "batch_norm: expected more than 1 value per channel when training, got an input "
                f"of shape {list(input.shape)}"
            )
        wide = _wide(input)
        dims = (0, *range(2, input.dim()))
        var, mean = _C.var_mean(wide, dims, correction=0)
        if running_mean is not None:
            with no_grad():
                _move(running_mean, mean.detach(), momentum)
        if running_var is not None:
            with no_grad():
                _move(running_var, var.detach() * (count / (count - 1)), momentum)
    else:
        if running_mean is None or running_var is None:
            raise RuntimeError(
                "batch_norm: outside training running_mean and running_var must be given"
            )
        wide, mean, var = input, running_mean, running_var
    # One multiplication and one addition for each element.
    scale = (var + eps).rsqrt()
    if weight is not None:
        scale = scale * weight
    shift = -mean * scale
    if bias is not None:
        shift = shift + bias
    if training:
        # By differences: large means would cancel badly otherwise.
        out = (wide - _per_channel(mean, input)) * _per_channel(scale, input)
        if bias is not None:
            out = out + _per_channel(bias, input)
    else:
        out = wide * _per_channel(scale, input) + _per_channel(shift, input)
    return out if out.dtype == input.dtype else out.to(input.dtype)


def instance_norm(
    input,
    running_mean=None,
    running_var=None,
    weight=None,
    bias=None,
    use_input_stats=True,
    momentum=0.1,
    eps=1e-5,
):
    """Normalises each channel of each sample."""
    if input.dim() < 2:
        raise _C.ShapeError(
            f"instance_norm: the input needs a batch and a channel dim, got {list(input.shape)}"
        )
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError(
                "instance_norm: running_mean and running_var must be given when use_input_stats "
                "is False"
            )
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    check_floating("instance_norm", input)
    _check_channels("instance_norm", input, running_mean=running_mean, running_var=running_var,
                    weight=weight, bias=bias)  # fmt: skip
    count = 1
    for size in input.shape[2:]:
        count *= size
    if count == 1:
        raise ValueError(
            "instance_norm: expected more than 1 spatial element when training, got an input of "
            f"shape {list(input.shape)}"
        )
    wide = _wide(input)
    var, mean = _C.var_mean(wide, tuple(range(2, input.dim())), correction=0, keepdim=True)
    with no_grad():
        if running_mean is not None:
            _move(running_mean, mean.detach().reshape(input.shape[:2]).mean(0), momentum)
        if running_var is not None:
            unbiased = var.detach().reshape(input.shape[:2]).mean(0) * (count / (count - 1))
            _move(running_var, unbiased, momentum)
    out = (wide - mean) * (var + eps).rsqrt()
    if weight is not None:
        out = out * _per_channel(weight, input)
    if bias is not None:
        out = out + _per_channel(bias, input)
    return out if out.dtype == input.dtype else out.to(input.dtype)


def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """x / (k + alpha * mean of x^2 over `size` neighbouring channels) ^ beta."""
    dims = input.dim()
    if dims < 3:
        raise ValueError(
            f"local_response_norm: expects an input of 3 or more dims, got {list(input.shape)}"
        )
    if input.numel() == 0:
        return input
    square = (input * input).movedim(1, -1)
    square = pad(square, (size // 2, (size - 1) // 2))
    mean = square.unfold(-1, size, 1).mean(-1).movedim(-1, 1)
    return input / (mean * alpha + k) ** beta
