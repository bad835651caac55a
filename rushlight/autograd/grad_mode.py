"""Switches for recording, as context managers and decorators."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from rushlight import _C
from rushlight.types import Self

if TYPE_CHECKING:
    _F = TypeVar("_F", bound=Callable[..., Any])


class _Switch:
    """Sets a mode for a block, or for every call of a decorated function."""

    def __call__(self, function: _F) -> _F:
        if inspect.isclass(function):
            warnings.warn(f"{type(self).__name__} on a class holds for the making of its objects "
                          "only; decorate the methods", FutureWarning, stacklevel=2)  # fmt: skip
        if inspect.isgeneratorfunction(function):
            return self._wrap_generator(function)

        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with self._fresh():
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]  # it stands for the function

    def _wrap_generator(self, function):
        # The mode holds while the generator runs, not while its caller does.
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            generator = function(*args, **kwargs)
            try:
                with self._fresh():
                    item = generator.send(None)
                while True:
                    try:
                        sent = yield item
                    except GeneratorExit:
                        with self._fresh():
                            generator.close()
                        raise
                    except BaseException as error:
                        with self._fresh():
                            item = generator.throw(error)
                    else:
                        with self._fresh():
                            item = generator.send(sent)
            except StopIteration as end:
                return end.value

        return wrapped

    def _fresh(self):
        return type(self)()


class _FixedSwitch(_Switch):
    """Recording is `_mode` inside, whatever was outside. Takes a function without a call, too."""

    _mode: bool

    @overload
    def __new__(cls, function: None = None) -> Self: ...
    @overload
    def __new__(cls, function: _F) -> _F: ...  # type: ignore[misc]  # @no_grad without a call
    def __new__(cls, function: Any = None) -> Any:
        switch = super().__new__(cls)
        return switch if function is None else switch(function)

    def __enter__(self) -> None:
        self._previous = _C.is_grad_enabled()
        _C._set_grad_enabled(self._mode)

    def __exit__(self, *error: object) -> None:
        _C._set_grad_enabled(self._previous)


class no_grad(_FixedSwitch):
    """Switches recording for backward off, in a with block or a decorated function.

    Saves the memory of graphs where nothing is trained. What is made inside needs no gradient.

    Arguments:
        function: a function to decorate.

    Example:
        >>> x = rl.ones(1, requires_grad=True)
        >>> with rl.no_grad():
        ...     y = x * 2
        >>> y.requires_grad
        False
        >>> @rl.no_grad()
        ... def double(x):
        ...     return x * 2
        >>> double(x).requires_grad
        False
        >>> rl.no_grad(lambda x: x * 3)(x).requires_grad
        False
    """

    _mode = False


class enable_grad(_FixedSwitch):
    """Switches recording for backward on, in a with block or a decorated function.

    Arguments:
        function: a function to decorate.

    Example:
        >>> x = rl.ones(1, requires_grad=True)
        >>> with rl.no_grad():
        ...     with rl.enable_grad():
        ...         y = x * 2
        ...     z = rl.enable_grad(lambda x: x * 3)(x)
        >>> y.requires_grad, z.requires_grad
        (True, True)
    """

    _mode = True


class _SetMode(_Switch):
    """Switches something on or off: at once, or for a block or function."""

    _is_enabled: Callable[[], bool]
    _set_enabled: Callable[..., Any]

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            mode = self._as_bool(mode)
        self.prev = self._is_enabled()
        self.mode = mode
        self._set_enabled(mode)

    def _as_bool(self, mode):
        raise TypeError(f"{type(self).__name__}: 'mode' must be a bool, not {type(mode).__name__}")

    def __call__(self, function: _F) -> _F:
        self._set_enabled(self.prev)
        return super().__call__(function)

    def __enter__(self) -> None:
        self._set_enabled(self.mode)

    def __exit__(self, *error: object) -> None:
        self._set_enabled(self.prev)

    def _fresh(self):
        previous = self._is_enabled()
        switch = type(self)(self.mode)
        switch.prev = previous
        return switch


class set_grad_enabled(_SetMode):
    """Switches recording on or off: at once, or for a block or function.

    Arguments:
        mode: whether to record.

    Example:
        >>> with rl.set_grad_enabled(False):
        ...     rl.is_grad_enabled()
        False
    """

    _is_enabled = staticmethod(_C.is_grad_enabled)
    _set_enabled = staticmethod(_C._set_grad_enabled)


class inference_mode(_Switch):
    """Switches recording off for good: tensors that are made inside never join a graph.

    Faster than no_grad, as no versions are kept.

    Arguments:
        mode: False switches it off again inside.

    Raises: RuntimeError when such a tensor is saved for backward later, or written to outside.

    Example:
        >>> with rl.inference_mode(mode=True):
        ...     x = rl.zeros(1)
        >>> x.is_inference()
        True
    """

    def __new__(cls, mode: Any = True) -> Any:
        switch = super().__new__(cls)
        if isinstance(mode, bool):
            return switch
        switch.__init__()  # type: ignore[misc]
        return switch(mode)

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode if isinstance(mode, bool) else True

    def __enter__(self) -> None:
        self._previous = (
            _C.is_inference_mode_enabled(), _C.is_grad_enabled(), _C._is_fwd_grad_enabled()
        )  # fmt: skip
        _C._set_inference_mode(self.mode)
        _C._set_grad_enabled(not self.mode)
        if self.mode:
            _C._set_fwd_grad_enabled(False)

    def __exit__(self, *error: object) -> None:
        inference, grad, forward = self._previous
        _C._set_inference_mode(inference)
        _C._set_grad_enabled(grad)
        _C._set_fwd_grad_enabled(forward)

    def _fresh(self):
        return type(self)(self.mode)
