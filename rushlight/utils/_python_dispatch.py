"""Modes and classes with __torch_dispatch__, which is called in place of operators."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from rushlight import _C
from rushlight._names.missing import names_missing_from
from rushlight.types import Self

__all__ = [
    "TorchDispatchMode",
    "is_traceable_wrapper_subclass",
    "return_and_correct_aliasing",
    "transform_subclass",
]

_here = threading.local()


def _stack():
    if not hasattr(_here, "modes"):
        _here.modes = []
    return _here.modes


class TorchDispatchMode:
    """A with block whose operators, in this thread, all go to the object's
    `__torch_dispatch__(func, types, args, kwargs)`: those that Python calls, those inside of them,
    and those of backward. Calling func runs the operator, without this mode."""

    def __init__(self, _dispatch_key: Any = None) -> None:
        pass

    def __enter__(self) -> Self:
        _stack().append((self, _C._push_torch_dispatch_mode(self)))
        return self

    def __exit__(self, *error: object) -> None:
        _, entered = _stack().pop()
        _C._pop_torch_dispatch_mode(entered)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no __torch_dispatch__")

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Self:
        """The class called: the old way to write it."""
        return cls(*args, **kwargs)


def _get_current_dispatch_mode() -> TorchDispatchMode | None:
    """The innermost mode of this thread."""
    return _stack()[-1][0] if _stack() else None


def _get_current_dispatch_mode_stack() -> list[TorchDispatchMode]:
    """The modes of this thread, the innermost last."""
    return [mode for mode, _ in _stack()]


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Whether it is an object of a wrapper subclass that can be taken apart and put together:
    __tensor_flatten__ and __tensor_unflatten__."""
    return (
        isinstance(t, _C.Tensor)
        and type(t) is not _C.Tensor
        and hasattr(t, "__tensor_flatten__")
        and hasattr(t, "__tensor_unflatten__")
    )


def transform_subclass(
    t: Any, callback: Callable[[str, _C.Tensor], _C.Tensor], outer_size: Any = None,
    outer_stride: Any = None,
) -> _C.Tensor:  # fmt: skip
    """The wrapper with each tensor inside replaced by callback(name, tensor)."""
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    return type(t).__tensor_unflatten__(inner, context, size, stride)


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """What __torch_dispatch__ returns: of an operator that works in place, its argument."""
    name = str(getattr(func, "__name__", "")).partition(".")[0]
    if name.endswith("_") and not name.endswith("__") and args:
        return args[0]
    return out


__getattr__ = names_missing_from(__name__)
