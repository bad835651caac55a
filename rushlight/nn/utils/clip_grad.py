"""Limits on the size of gradients."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable

from rushlight import _C
from rushlight._C import Tensor
from rushlight.autograd import no_grad
from rushlight.utils._foreach_utils import _device_has_foreach_support, _in_one_pass, _not_yet

__all__ = ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def _gradients(parameters):
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    return [p.grad for p in parameters if p.grad is not None]


def _by_device(name, tensors, foreach):
    """The tensors of each device, as one list."""
    groups = {}
    for t in tensors:
        groups.setdefault(t.device, []).append(t)
    unfit = [d.type for d in groups if not _device_has_foreach_support(d)]
    if foreach and unfit:
        raise RuntimeError(f"{name}: foreach=True is for tensors on the CPU or a GPU, one is on "
                           f"{unfit[0]}")  # fmt: skip
    return groups


@no_grad()
def get_total_norm(tensors: Tensor | Iterable[Tensor], norm_type: float = 2.0,
                   error_if_nonfinite: bool = False,
                   foreach: bool | None = None) -> Tensor:  # fmt: skip
    """The norm of all tensors as if they were one vector.

    Arguments:
        tensors: any tensors, such as gradients.
        norm_type: which norm.
        error_if_nonfinite: raise if the norm is nan or inf.
        foreach: accepted.

    Example:
        >>> nn.utils.get_total_norm([rl.tensor([3.0]), rl.tensor([4.0])], norm_type=1.0)
        tensor(7.)
    """
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return _C.tensor(0.0)
    groups = _by_device("get_total_norm", tensors, foreach)
    norms = [_C._list_norm(group, norm_type) for group in groups.values()]
    total = norms[0]
    if len(norms) > 1:
        total = _C.stack([norm.to(tensors[0].device) for norm in norms]).norm(norm_type)
    return _checked(total, norm_type, error_if_nonfinite)


def _checked(total, norm_type, error_if_nonfinite):
    if error_if_nonfinite and not math.isfinite(float(total)):
        raise RuntimeError(
            f"the total norm of order {norm_type} of the gradients is {float(total)}; it cannot be "
            "clipped. error_if_nonfinite=False goes on in spite of that"
        )
    return total


@no_grad()
def clip_grads_with_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float,
                          total_norm: Tensor, foreach: bool | None = None) -> None:  # fmt: skip
    """Scales gradients whose total norm is known, so that it is at most max_norm.

    Arguments:
        parameters: tensors with gradients, or one of them.
        max_norm: the largest total norm.
        total_norm: the norm that get_total_norm gave.
        foreach: accepted.

    Example:
        >>> x = rl.tensor([3.0], requires_grad=True)
        >>> x.sum().backward()
        >>> nn.utils.clip_grads_with_norm_([x], max_norm=1.0, total_norm=rl.tensor(2.0))
        >>> x.grad
        tensor([0.5000])
    """
    groups = _by_device("clip_grads_with_norm_", _gradients(parameters), foreach)
    if not groups:
        return
    factor = (float(max_norm) / (_C.as_tensor(total_norm) + 1e-6)).clamp(max=1.0)
    for device, grads in groups.items():
        _C._list_scale_(grads, factor.to(device))


@no_grad()
def clip_grad_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0,
                    error_if_nonfinite: bool = False,
                    foreach: bool | None = None) -> Tensor:  # fmt: skip
    """Scales all gradients so that their total norm is at most max_norm; returns what it was.

    Arguments:
        parameters: tensors with gradients, or one of them.
        max_norm: the largest total norm.
        norm_type: which norm; inf is the largest element.
        error_if_nonfinite: raise if the norm is nan or inf.
        foreach: accepted; all gradients are scaled at once here.

    Returns: the norm before clipping.

    Example:
        >>> x = rl.tensor([3.0, 4.0], requires_grad=True)
        >>> (x**2).sum().backward()
        >>> nn.utils.clip_grad_norm_([x], max_norm=1.0, norm_type=2.0)
        tensor(10.)
        >>> x.grad
        tensor([0.6000, 0.8000])
    """
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    total = get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0,
                   error_if_nonfinite: bool = False,
                   foreach: bool | None = None) -> Tensor:  # fmt: skip
    """The old name of clip_grad_norm_."""
    warnings.warn(
        "nn.utils.clip_grad_norm is deprecated, use clip_grad_norm_", FutureWarning, stacklevel=2
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad()
def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Limits every element of every gradient to [-clip_value, clip_value].

    Arguments:
        parameters: tensors with gradients, or one of them.
        clip_value: the largest magnitude.
        foreach: accepted.

    Example:
        >>> x = rl.tensor([0.1, 4.0], requires_grad=True)
        >>> (x**2).sum().backward()
        >>> nn.utils.clip_grad_value_([x], clip_value=1.0)
        >>> x.grad
        tensor([0.2000, 1.0000])
    """
    clip_value = float(clip_value)
    grads = _gradients(parameters)
    _by_device("clip_grad_value_", grads, foreach)

    def pass_over(group):
        bounds = (-clip_value, clip_value)
        return _in_one_pass(_C._list_map_, "clamp", group, (), (), bounds, ())

    for group in _not_yet(grads, pass_over):
        for grad in group:
            grad.clamp_(min=-clip_value, max=clip_value)
