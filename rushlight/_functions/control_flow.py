"""Control flow as functions of functions; everything runs eagerly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rushlight._C import Tensor

_T = TypeVar("_T")

__all__ = ["_disable_dynamo", "cond", "while_loop"]


def cond(pred: bool | Tensor, true_fn: Callable[..., _T], false_fn: Callable[..., _T],
         operands: Sequence[Any] = ()) -> _T:  # fmt: skip
    """true_fn(*operands) if pred else false_fn(*operands).

    Arguments:
        pred: a bool, or a tensor of one element.
        true_fn, false_fn: functions of the operands.
        operands: what they are called with.

    Example:
        >>> rl.cond(rl.tensor(True), lambda x: x + 1, lambda x: x - 1, (rl.tensor(5),))
        tensor(6)
    """
    return (true_fn if bool(pred) else false_fn)(*operands)


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]
) -> tuple[Any, ...]:
    """Calls body_fn on what it returned before, as long as cond_fn holds.

    Arguments:
        cond_fn: a function of the values that returns a bool.
        body_fn: a function of the values that returns the next ones.
        carried_inputs: the first values.

    Example:
        >>> rl.while_loop(lambda x: x < 100, lambda x: (x * 3,), (rl.tensor(2),))
        (tensor(162),)
    """
    carried = tuple(carried_inputs)
    while bool(cond_fn(*carried)):
        result = body_fn(*carried)
        carried = tuple(result) if isinstance(result, tuple | list) else (result,)
    return carried


def _disable_dynamo(fn=None, recursive=True):
    """The function itself."""
    return (lambda function: function) if fn is None else fn
