"""Autocast for functions written in Python, by the same lists as for the operators of the table."""

import functools

from rushlight import _C
from rushlight._C import Tensor

_is_on = _C._is_autocast_on


def by_policy(function):
    """The function, with its arguments cast inside autocast as the policy of its name says."""
    name = function.__name__

    @functools.wraps(function)
    def autocast_aware(*args, **kwargs):
        if _is_on():
            return _run(function, name, args, kwargs)
        return function(*args, **kwargs)

    return autocast_aware


def _run(function, name, args, kwargs):
    tensors = [t for t in (*args, *kwargs.values()) if isinstance(t, Tensor)]
    device = tensors[0].device.type if tensors else "cpu"
    if device not in ("cpu", "cuda") or not _C.is_autocast_enabled(device):
        return function(*args, **kwargs)
    policy = _C._autocast_policy(name, device)
    if policy is None:
        return function(*args, **kwargs)
    dtype = _C.float32 if policy == "float32" else _C.get_autocast_dtype(device)

    def cast(t):
        eligible = isinstance(t, Tensor) and t.is_floating_point() and t.dtype != _C.float64
        return t.to(dtype) if eligible and t.device.type == device else t

    args = [cast(t) for t in args]
    kwargs = {key: cast(t) for key, t in kwargs.items()}
    _C.set_autocast_enabled(device, False)
    try:
        return function(*args, **kwargs)
    finally:
        _C.set_autocast_enabled(device, True)
