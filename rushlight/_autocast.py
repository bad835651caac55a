"""Autocast for functions written in Python: the policy of an op stands in its row of the table
(`autocast:`), that of a function is stated where the function is."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import cast

from rushlight import _C
from rushlight._C import Tensor
from rushlight.types import _F

_is_on = _C._is_autocast_on
_POLICIES = ("lower_precision", "float32", "widest", "refused")


def autocast_policy(*, cpu: str | None = None, cuda: str | None = None) -> Callable[[_F], _F]:
    """A decorator: inside autocast, floating arguments are cast as the policy of their device says,
    and the function runs with autocast off.

    Policies: "lower_precision" (the region's dtype), "float32", "widest" (of the arguments), and
    "refused" for what float16 cannot hold. float64 is left alone.
    """
    policies = {"cpu": cpu, "cuda": cuda}
    for policy in (cpu, cuda):
        if policy is not None and policy not in _POLICIES:
            raise ValueError(f"autocast_policy: unknown policy {policy!r}; known are {_POLICIES}")

    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def autocast_aware(*args, **kwargs):
            if _is_on():
                return _run(function, policies, args, kwargs)
            return function(*args, **kwargs)

        autocast_aware.__autocast__ = policies  # type: ignore[attr-defined]
        return cast(_F, autocast_aware)

    return decorate


def policy_of(function, device):
    """The policy of a public function or op for "cpu" or "cuda", or None."""
    while function is not None:
        if hasattr(function, "__autocast__"):
            return function.__autocast__[device]
        last, function = function, getattr(function, "__wrapped__", None)
    return _C._autocast_policy(last.__name__, device)


def _tensors(values):
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _run(function, policies, args, kwargs):
    tensors = list(_tensors((*args, *kwargs.values())))
    device = tensors[0].device.type if tensors else None
    policy = policies.get(device)
    if policy is None or not _C.is_autocast_enabled(device):
        return function(*args, **kwargs)
    if policy == "refused":
        raise RuntimeError(
            f"{function.__name__}: float16 cannot hold its gradients, so it does not run in a "
            "region of autocast; call it with autocast off, on float32"
        )

    def is_eligible(t):
        floating = isinstance(t, Tensor) and t.is_floating_point() and t.dtype != _C.float64
        return floating and t.device.type == device

    dtype = _C.get_autocast_dtype(device) if policy == "lower_precision" else _C.float32
    if policy == "widest":
        found = {t.dtype for t in tensors if is_eligible(t)}
        dtype = found.pop() if len(found) == 1 else _C.float32

    def cast(value):
        if type(value) in (list, tuple):
            return type(value)(cast(v) for v in value)
        return value.to(dtype) if is_eligible(value) else value

    args = [cast(value) for value in args]
    kwargs = {key: cast(value) for key, value in kwargs.items()}
    _C.set_autocast_enabled(device, False)
    try:
        return function(*args, **kwargs)
    finally:
        _C.set_autocast_enabled(device, True)
