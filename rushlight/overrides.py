"""Tools for classes with __torch_function__."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight._names.missing import fill
from rushlight.types import _F, Self

__all__ = [
    "BaseTorchFunctionMode",
    "TorchFunctionMode",
    "handle_torch_function",
    "has_torch_function",
    "is_tensor_like",
    "is_tensor_method_or_property",
]


def has_torch_function(relevant_args: Any) -> bool:
    """Whether one of the arguments has a __torch_function__ of its own.

    Arguments:
        relevant_args: an iterable of the arguments.

    Example:
        >>> class Traced:
        ...     @classmethod
        ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
        ...         return f"{func.__name__} was called"
        >>> rl.overrides.has_torch_function((rl.ones(1), Traced()))
        True
        >>> rl.overrides.has_torch_function((rl.ones(1), 2))
        False
    """
    return any(_overrides(type(arg)) for arg in relevant_args)


def has_torch_function_unary(arg: Any) -> bool:
    """has_torch_function for one argument."""
    return _overrides(type(arg))


def has_torch_function_variadic(*args: Any) -> bool:
    """has_torch_function with the arguments spelled out."""
    return has_torch_function(args)


def _overrides(cls):
    found = getattr(cls, "__torch_function__", None)
    if found is None or cls is Tensor:
        return False
    default = getattr(Tensor, "__torch_function__", None)
    disabled = getattr(_C, "_disabled_torch_function_impl", None)
    own = getattr(found, "__func__", found)
    return own is not getattr(default, "__func__", default) and own is not disabled


def handle_torch_function(
    public_api: Any, relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Calls the __torch_function__ of the arguments, the most derived class first.

    Arguments:
        public_api: the function that was called, which the methods are given.
        relevant_args: the arguments whose classes are asked.
        args, kwargs: what the function was called with.

    Raises:
        TypeError: where all of them return NotImplemented.

    Example:
        >>> class Traced:
        ...     @classmethod
        ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
        ...         return f"{func.__name__} was called"
        >>> x = Traced()
        >>> rl.overrides.handle_torch_function(rl.add, (x,), x, 1)
        'add was called'
    """
    found = []
    for arg in relevant_args:
        cls = type(arg)
        if not _overrides(cls) or cls in (type(o) for o in found):
            continue
        at = next((i for i, o in enumerate(found) if issubclass(cls, type(o))), len(found))
        found.insert(at, arg)
    types = tuple(type(o) for o in found)
    for arg in found:
        result = arg.__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(
        f"no implementation of {getattr(public_api, '__name__', public_api)} in the "
        f"__torch_function__ of {[cls.__name__ for cls in types]}"
    )


def is_tensor_like(inp: Any) -> bool:
    """A tensor, or something that stands in for one.

    Arguments:
        inp: any object; what has a `__torch_function__` stands in for a tensor.

    Example:
        >>> rl.overrides.is_tensor_like(rl.ones(1)), rl.overrides.is_tensor_like([1.0])
        (True, False)
    """
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Callable) -> bool:
    """Whether a function is a method of Tensor or the getter of one of its attributes.

    Arguments:
        func: a function, such as the one that a `__torch_function__` is given.

    Example:
        >>> rl.overrides.is_tensor_method_or_property(rl.Tensor.add)
        True
        >>> rl.overrides.is_tensor_method_or_property(rl.stack)
        False
    """
    name = getattr(func, "__name__", "")
    return name == "__get__" or getattr(Tensor, name, None) is func


def get_default_nowrap_functions() -> set[Callable]:
    """Functions whose results keep their type; none here."""
    return set()


def wrap_torch_function(dispatcher: Any) -> Callable[[_F], _F]:
    """Makes a Python function ask the __torch_function__ of the arguments dispatcher returns."""
    import functools

    def decorate(func):
        @functools.wraps(func)
        def wrapped(*args, **kwargs):
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return decorate


def resolve_name(f: Any) -> str:
    """The dotted name of a function."""
    module = getattr(f, "__module__", None)
    name = getattr(f, "__qualname__", getattr(f, "__name__", str(f)))
    return f"{module}.{name}" if module else name


class TorchFunctionMode:
    """A with block whose calls, in this thread, all go to the object's __torch_function__.

    While it runs, the next mode further out is the one that is asked.

    Example:
        >>> class Log(rl.overrides.TorchFunctionMode):
        ...     def __torch_function__(self, func, types, args=(), kwargs=None):
        ...         print(func.__name__)
        ...         return func(*args, **(kwargs or {}))
        >>> with Log():
        ...     x = rl.ones(2).exp()
        ones
        exp
    """

    def __init__(self) -> None:
        pass

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no __torch_function__")

    def __enter__(self) -> Self:
        _C._push_torch_function_mode(self)
        return self

    def __exit__(self, *error: object) -> None:
        _C._pop_torch_function_mode()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Self:
        """The class called: the old way to write it."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that runs every call as it is.

    Example:
        >>> with rl.overrides.BaseTorchFunctionMode():
        ...     print(rl.ones(2) + 1)
        tensor([2., 2.])
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


class DisableTorchFunctionSubclass:
    """A with block in which subclasses of Tensor count as plain tensors.

    Example:
        >>> class Named(rl.Tensor):
        ...     pass
        >>> x = rl.ones(2).as_subclass(Named)
        >>> type(x + 1).__name__
        'Named'
        >>> with rl.DisableTorchFunctionSubclass():
        ...     print(type(x + 1).__name__)
        Tensor
    """

    def __enter__(self) -> None:
        _C._enter_torch_function_off()

    def __exit__(self, *error: object) -> None:
        _C._leave_torch_function_off()


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """A with block in which modes of this thread see nothing either."""

    def __enter__(self) -> None:
        super().__enter__()
        self._modes = _C._torch_function_modes()
        for _ in self._modes:
            _C._pop_torch_function_mode()

    def __exit__(self, *error: object) -> None:
        for mode in self._modes:
            _C._push_torch_function_mode(mode)
        super().__exit__(*error)


fill(globals())
