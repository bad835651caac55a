"""Checks that raise, by PyTorch's private names for its own use."""

from rushlight import _C
from rushlight._C import Tensor

__all__ = [
    "_assert",
    "_assert_async",
    "_check",
    "_check_index",
    "_check_is_size",
    "_check_not_implemented",
    "_check_tensor_all",
    "_check_tensor_all_with",
    "_check_type",
    "_check_value",
    "_check_with",
]


def _assert(condition, message):
    """assert, for code that PyTorch traces."""
    assert condition, message


def _assert_async(input, assert_msg=""):
    """Raises when the tensor holds zero."""
    _check(bool(input), lambda: assert_msg or "_assert_async: expected nonzero, got zero")


def _check_with(error_type, cond, message=None):
    """Raises error_type(message()) unless cond."""
    if not isinstance(cond, bool):
        raise TypeError(f"_check: cond must be a bool, got {type(cond).__name__}")
    if cond:
        return
    if message is None:
        raise error_type("Expected cond to be True, but got False")
    if not callable(message):
        raise TypeError(f"_check: message must be callable, got {type(message).__name__}")
    raise error_type(str(message()))


def _check(cond, message=None):
    """Raises RuntimeError(message()) unless cond."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond, message=None):
    """Raises IndexError(message()) unless cond."""
    _check_with(IndexError, cond, message)


def _check_value(cond, message=None):
    """Raises ValueError(message()) unless cond."""
    _check_with(ValueError, cond, message)


def _check_type(cond, message=None):
    """Raises TypeError(message()) unless cond."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond, message=None):
    """Raises NotImplementedError(message()) unless cond."""
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all_with(error_type, cond, message=None):
    """Raises error_type(message()) unless all elements of a bool tensor hold."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"_check_tensor_all: cond must be a tensor, got {type(cond).__name__}")
    if cond.dtype != _C.bool:
        raise TypeError(f"_check_tensor_all: cond must be a tensor of bools, got {cond.dtype}")
    _check_with(error_type, cond.all().item(), message)


def _check_tensor_all(cond, message=None):
    """Raises RuntimeError(message()) unless all elements of cond hold."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _check_is_size(i, message=None, *, max=None):
    """Raises unless i is a size."""
    _check(i >= 0, message)
