"""Variable, PyTorch's first name for a tensor that is recorded: today another name of Tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight import _C
from rushlight._C import Tensor


class _VariableMeta(type):
    def __instancecheck__(cls, other: Tensor) -> bool:
        return isinstance(other, Tensor)


class _Engine:
    """What programs reach by ``Variable._execution_engine``: the engine that runs backward."""

    def queue_callback(self, callback: Callable[..., Any]) -> None:
        """Calls a function when the backward pass that runs now is over."""
        _C._queue_callback(callback)

    def is_checkpoint_valid(self) -> Any:
        """Whether a reentrant checkpoint may run in this backward pass."""
        return _C._is_checkpoint_valid()


class Variable(metaclass=_VariableMeta):
    """``Variable(tensor, requires_grad)`` gives a tensor; every tensor is an instance.

    Arguments:
        data: a tensor.
        requires_grad: record what is done with it.
        volatile: accepted, with a warning.

    Example:
        >>> rl.autograd.Variable(rl.ones(1), requires_grad=True)
        tensor([1.], requires_grad=True)
    """

    _execution_engine = _Engine()

    def __new__(  # type: ignore[misc]
        cls, data: Any = None, requires_grad: bool = False, volatile: Any = None
    ) -> Tensor:
        if data is None:
            data = _C.empty(0)
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable: expected a Tensor, not {type(data).__name__}")
        return data.detach().requires_grad_(requires_grad)


def variable(data: Any, requires_grad: bool = False) -> Tensor:
    """The function form of Variable that old programs use: a tensor.

    Arguments:
        data: a tensor, or what `tensor` takes.
        requires_grad: record what is done with it.

    Example:
        >>> rl.autograd.variable(rl.ones(2), requires_grad=True)
        tensor([1., 1.], requires_grad=True)
    """
    return Variable(data, requires_grad)
