"""How losses are reduced: 'none', 'mean', 'sum', and the two flags of old that said the same."""

import warnings

from rushlight import _C

_KINDS = ("none", "mean", "sum")
_ENUM = {"none": 0, "mean": 1, "sum": 2}


def get_enum(reduction):
    """The number that stands for a reduction."""
    check_reduction("reduction", reduction)
    return _ENUM[reduction]


def fused_loss(kind, input, target, parameter, reduction):
    """The loss in one pass (see csrc/ops/nn/loss.cpp), or None where it has no loop for that."""
    dtype = input.dtype
    looped = dtype in (_C.float32, _C.float64) or (input.is_cuda and input.is_floating_point())
    if dtype != target.dtype or not looped or reduction not in _ENUM:
        return None
    if target.shape != input.shape:
        return None
    return _C._element_loss(input, target, kind, parameter, _ENUM[reduction])


def check_reduction(name, reduction):
    if reduction not in _KINDS:
        raise ValueError(f"{name}: reduction must be 'none', 'mean' or 'sum', got {reduction!r}")


def reduce(name, loss, reduction):
    """The loss of each element, their mean or their sum."""
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    check_reduction(name, reduction)
    return loss


def legacy_get_string(size_average, reduce, emit_warning=True):
    """The reduction that the flags size_average and reduce meant."""
    size_average = True if size_average is None else size_average
    reduce = True if reduce is None else reduce
    found = "none" if not reduce else "mean" if size_average else "sum"
    if emit_warning:
        warnings.warn(
            f"size_average and reduce are deprecated; use reduction='{found}'", stacklevel=4
        )
    return found


def resolve(size_average, reduce, reduction):
    if size_average is None and reduce is None:
        return reduction
    return legacy_get_string(size_average, reduce)


def check_floating(name, tensor):
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise _C.DTypeError(f"{name}: expects a floating point input, got {tensor.dtype}")
