"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from rushlight import _C
from rushlight._C import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def _check_device(param, device):
    if device is not None and param.device != device:
        raise TypeError(
            f"parameters on different devices ({device} and {param.device}) do not make one vector"
        )
    return param.device


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters, flattened, one after the other.

    Arguments:
        parameters: tensors.

    Example:
        >>> nn.utils.parameters_to_vector([rl.zeros(2), rl.ones(1, 2)])
        tensor([0., 0., 1., 1.])
    """
    device, parts = None, []
    for param in parameters:
        device = _check_device(param, device)
        parts.append(param.reshape(-1))
    return _C.cat(parts)


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Gives each parameter its part of the vector (as memory: the parts are views of it).

    Arguments:
        vec: a vector.
        parameters: tensors that together have as many elements.

    Example:
        >>> x, y = rl.zeros(2), rl.zeros(1, 1)
        >>> nn.utils.vector_to_parameters(rl.tensor([1.0, 2.0, 3.0]), [x, y])
        >>> x, y
        (tensor([1., 2.]), tensor([[3.]]))
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"vector_to_parameters: expected a tensor, got {type(vec).__name__}")
    device, start, parameters = None, 0, list(parameters)
    for param in parameters:
        device = _check_device(param, device)
    if sum(param.numel() for param in parameters) > vec.numel():
        raise _C.ShapeError(
            f"vector_to_parameters: the vector of {vec.numel()} elements is too short"
        )
    for param in parameters:
        count = param.numel()
        param.data = vec[start : start + count].view_as(param).data
        start += count
