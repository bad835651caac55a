"""Normalisations by the fused ops of csrc/ops/normalization.cpp."""

from rushlight import _C

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"]


def _check_count(name, count, what, input):
    if count == 1:
        raise ValueError(
            f"{name}: expected more than 1 {what} when training, got an input of shape "
            f"{list(input.shape)}"
        )


def _points(input):
    """Elements of one channel of one sample."""
    count = 1
    for size in input.shape[2:]:
        count *= size
    return count


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
    if training and input.dim() >= 2:
        _check_count("batch_norm", input.shape[0] * _points(input), "value per channel", input)
    return _C.batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps, True
    )


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
    if use_input_stats and input.dim() >= 2:
        _check_count("instance_norm", _points(input), "spatial element", input)
    return _C.instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True
    )


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """Normalises each sample over groups of channels and all that follows."""
    if input.dim() >= 2 and num_groups > 0:
        count = input.shape[0] * input.shape[1] // num_groups * _points(input)
        _check_count("group_norm", count, "value per channel", input)
    return _C.group_norm(input, num_groups, weight, bias, eps)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Normalises over the last dims, then weight and bias for each of their elements."""
    return _C.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """x / sqrt(mean(x^2) + eps) over the last dims, times weight."""
    return _C.rms_norm(input, normalized_shape, weight, eps)
