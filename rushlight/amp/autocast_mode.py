"""Regions of a program that run in mixed precision.

What happens to an operator's arguments is decided in csrc/ops/autocast/autocast.cpp; here are the
switches.
"""

from __future__ import annotations

import collections.abc
import functools
import warnings
from collections.abc import Callable
from typing import Any, Literal, cast, overload

from rushlight import _C
from rushlight._C import Tensor
from rushlight.types import _F, Self, _dtype

__all__ = ["autocast", "autocast_decorator", "custom_bwd", "custom_fwd", "is_autocast_available"]

_DEVICES = ("cpu", "cuda")
_DTYPES = (_C.bfloat16, _C.float16)


def is_autocast_available(device_type: str) -> bool:
    """Does autocast know this kind of device?

    Arguments:
        device_type: such as 'cpu' or 'cuda'.

    Example:
        >>> rl.amp.is_autocast_available("cpu")
        True
    """
    if not isinstance(device_type, str):
        raise TypeError("is_autocast_available: device_type must be a str, "
                        f"not {type(device_type).__name__}")  # fmt: skip
    return device_type in _DEVICES


def _cuda_is_available():
    from rushlight import cuda

    return cuda.is_available()


def autocast_decorator(autocast_instance: Any, func: _F) -> _F:
    """func, called inside the region."""

    @functools.wraps(func)
    def decorated(*args, **kwargs):
        with autocast_instance:
            return func(*args, **kwargs)

    return cast(_F, decorated)


class autocast:
    """A region in which products run in a 16-bit dtype, and ops that need it in float32.

    Wrap forward and loss, not backward. With float16 use a GradScaler as well; bfloat16 needs
    none.

    Arguments:
        device_type: 'cpu' or 'cuda'.
        dtype: the 16-bit dtype; None is bfloat16 on the CPU and float16 on GPUs.
        enabled: False switches it off inside.
        cache_enabled: convert each weight once per region.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> with rl.autocast("cpu", dtype=rl.bfloat16):
        ...     y = layer(rl.zeros(1, 2))
        >>> y.dtype, layer.weight.dtype
        (rushlight.bfloat16, rushlight.float32)
        >>> with rl.autocast("cpu", enabled=False):
        ...     print(layer(rl.zeros(1, 2)).dtype)
        rushlight.float32
    """

    def __init__(
        self,
        device_type: str,
        dtype: _dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError("autocast: device_type must be a str such as 'cpu', "
                             f"not {type(device_type).__name__}")  # fmt: skip
        if not is_autocast_available(device_type):
            raise RuntimeError(f"autocast: the device types are {' and '.join(_DEVICES)}, "
                               f"not {device_type!r}")  # fmt: skip
        self.device = device_type
        self.fast_dtype = _C.get_autocast_dtype(device_type) if dtype is None else dtype
        if cache_enabled is None:
            cache_enabled = _C.is_autocast_cache_enabled()
        self._cache_enabled = cache_enabled
        if enabled and device_type == "cuda" and not _cuda_is_available():
            warnings.warn("autocast: CUDA is not available; the region runs as if enabled=False",
                          stacklevel=2)  # fmt: skip
            enabled = False
        elif enabled and self.fast_dtype not in _DTYPES:
            warnings.warn(f"autocast: dtype must be bfloat16 or float16, not {self.fast_dtype}; "
                          "the region runs as if enabled=False", stacklevel=2)  # fmt: skip
            enabled = False
        self._enabled = bool(enabled)
        self._before = []  # one object may be entered several times, inside itself too

    def __enter__(self) -> Self:
        self._before.append(
            (
                _C.is_autocast_enabled(self.device),
                _C.get_autocast_dtype(self.device),
                _C.is_autocast_cache_enabled(),
            )
        )
        _C.set_autocast_enabled(self.device, self._enabled)
        _C.set_autocast_dtype(self.device, self.fast_dtype)
        _C.set_autocast_cache_enabled(self._cache_enabled)
        _C.autocast_increment_nesting()
        return self

    def __exit__(self, *error: object) -> Literal[False]:
        if _C.autocast_decrement_nesting() == 0:
            _C.clear_autocast_cache()
        enabled, dtype, cache = self._before.pop()
        _C.set_autocast_enabled(self.device, enabled)
        _C.set_autocast_dtype(self.device, dtype)
        _C.set_autocast_cache_enabled(cache)
        return False

    def __call__(self, func: _F) -> _F:
        if not callable(func):
            raise TypeError(f"autocast: expected a function to decorate, not {type(func).__name__};"
                            " to open a region, write 'with autocast(...):'")  # fmt: skip
        return autocast_decorator(self, func)


def _cast(value, device_type, dtype):
    """The value with its floating tensors in dtype, inside containers too."""
    if isinstance(value, Tensor):
        eligible = (
            value.is_floating_point()
            and value.device.type == device_type
            and value.dtype is not _C.float64
        )
        return value.to(dtype) if eligible else value
    if isinstance(value, str | bytes) or hasattr(value, "__array_interface__"):
        return value
    if isinstance(value, collections.abc.Mapping):
        return {
            _cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()
        }
    if isinstance(value, collections.abc.Iterable):
        items = (_cast(v, device_type, dtype) for v in value)
        return type(value)(items) if isinstance(value, list | tuple) else items
    return value


def _check_device_type(name, device_type):
    if not isinstance(device_type, str):
        raise ValueError(f"{name}: device_type must be a str such as 'cpu', "
                         f"not {type(device_type).__name__}")  # fmt: skip


@overload
def custom_fwd(fwd: _F, *, device_type: str, cast_inputs: _dtype | None = None) -> _F: ...
@overload
def custom_fwd(
    fwd: None = None, *, device_type: str, cast_inputs: _dtype | None = None
) -> Callable[[_F], _F]: ...
def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: _dtype | None = None
) -> Callable[..., Any]:
    """For the forward of a custom Function: remembers for custom_bwd whether autocast was on.

    With ``cast_inputs``, forward runs without autocast and gets its floating tensors in that dtype;
    float64 stays. Outside of autocast it changes nothing.

    Arguments:
        fwd: the forward; None gives a decorator.
        device_type: the kind of device whose autocast is meant, such as "cpu" or "cuda".
        cast_inputs: a dtype; None leaves tensors as they are.

    Example:
        >>> class Double(rl.autograd.Function):
        ...     @staticmethod
        ...     @rl.amp.custom_fwd(device_type="cpu", cast_inputs=rl.float32)
        ...     def forward(ctx, x):
        ...         return x * 2
        >>> with rl.autocast("cpu", dtype=rl.bfloat16):
        ...     Double.apply(rl.ones(2, dtype=rl.bfloat16)).dtype
        rushlight.float32
    """
    _check_device_type("custom_fwd", device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(ctx, *args, **kwargs):
        ctx._dtype = _C.get_autocast_dtype(device_type)
        enabled = _C.is_autocast_enabled(device_type)
        if cast_inputs is None:
            ctx._fwd_used_autocast = enabled
            return fwd(ctx, *args, **kwargs)
        ctx._fwd_used_autocast = False
        if not enabled:
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            args = _cast(args, device_type, cast_inputs)
            return fwd(ctx, *args, **_cast(kwargs, device_type, cast_inputs))

    return decorated


@overload
def custom_bwd(bwd: _F, *, device_type: str) -> _F: ...
@overload
def custom_bwd(bwd: None = None, *, device_type: str) -> Callable[[_F], _F]: ...
def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """For the backward of a custom Function: runs it with autocast as forward had it.

    The forward must be decorated with custom_fwd.

    Arguments:
        bwd: the backward; None gives a decorator.
        device_type: the kind of device whose autocast is meant, such as "cpu" or "cuda".

    Example:
        >>> class Double(rl.autograd.Function):
        ...     @staticmethod
        ...     @rl.amp.custom_fwd(device_type="cpu")
        ...     def forward(ctx, x):
        ...         return x * 2
        ...     @staticmethod
        ...     @rl.amp.custom_bwd(device_type="cpu")
        ...     def backward(ctx, grad):
        ...         print("autocast:", rl.is_autocast_enabled("cpu"))
        ...         return grad * 2
        >>> x = rl.ones(2, requires_grad=True)
        >>> with rl.autocast("cpu", dtype=rl.bfloat16):
        ...     y = Double.apply(x).sum()
        >>> y.backward()
        autocast: True
        >>> x.grad
        tensor([2., 2.])
    """
    _check_device_type("custom_bwd", device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(ctx, *args, **kwargs):
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(ctx, *args, **kwargs)

    return decorated
