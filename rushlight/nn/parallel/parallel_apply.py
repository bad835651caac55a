"""Calling several models at the same time, a thread each."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from rushlight import _C
from rushlight._C import Tensor
from rushlight._utils import ExceptionWrapper, _as_device
from rushlight.types import Device

if TYPE_CHECKING:
    from rushlight.nn.modules.module import Module

__all__ = ["get_a_var", "parallel_apply"]


def get_a_var(obj: Tensor | list[Any] | tuple[Any, ...] | dict[Any, Any]) -> Tensor | None:
    """Some tensor in lists and dicts, or None."""
    if isinstance(obj, _C.Tensor):
        return obj
    if isinstance(obj, dict):
        obj = list(obj.values())
    if isinstance(obj, list | tuple):
        for each in map(get_a_var, obj):
            if each is not None:
                return each
    return None


def parallel_apply(
    modules: Sequence[Module],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[int | Device | None] | None = None,
) -> list[Any]:
    """Each module called with its inputs, in a thread of its own whose current device is that of
    its inputs. What one raises is raised here, with the number of the module."""
    count = len(modules)
    kwargs_tup = ({},) * count if kwargs_tup is None else kwargs_tup
    devices = [None] * count if devices is None else devices
    for name, given in (("inputs", inputs), ("kwargs", kwargs_tup), ("devices", devices)):
        if len(given) != count:
            raise ValueError(f"parallel_apply: {count} modules, but {len(given)} {name}")
    calls = [_Call(*each) for each in zip(modules, inputs, kwargs_tup, devices, strict=True)]
    if count == 1:
        return [calls[0].run()]
    results, settings = [None] * count, _ThreadSettings()

    def work(i):
        try:
            with settings:
                results[i] = calls[i].run()
        except BaseException:
            where = f"in replica {i} on device {calls[i].device}"
            results[i] = ExceptionWrapper(sys.exc_info(), where=where)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, ExceptionWrapper):
            result.reraise()
    return results


class _Call:
    """A module with its arguments, to be called on its device, in the stream that is current there
    now."""

    def __init__(self, module: Module, given: Any, kwargs: Any, device: Device) -> None:
        self._module, self._kwargs = module, kwargs
        self._args = tuple(given) if isinstance(given, tuple | list) else (given,)
        if device is None:
            tensor = get_a_var((self._args, kwargs))
            device = _C.device("cpu") if tensor is None else tensor.device
        self.device, self._stream = _as_device(device), None
        if self.device.type == "cuda":
            from rushlight import cuda

            self._stream = cuda.current_stream(self.device)

    def run(self) -> Any:
        if self._stream is None:
            return self._module(*self._args, **self._kwargs)
        from rushlight import cuda

        with cuda.stream(self._stream):  # and its device
            return self._module(*self._args, **self._kwargs)


class _ThreadSettings:
    """What a thread inherits from the one that started it: whether operations are recorded, and
    autocast."""

    def __init__(self) -> None:
        self._grad = _C.is_grad_enabled()
        self._casts = {
            kind: (_C.is_autocast_enabled(kind), _C.get_autocast_dtype(kind))
            for kind in ("cpu", "cuda")
        }

    def __enter__(self) -> None:
        from rushlight.amp import autocast
        from rushlight.autograd import set_grad_enabled

        set_grad_enabled(self._grad)  # (the thread ends with it)
        for kind, (enabled, dtype) in self._casts.items():
            if enabled:
                autocast(kind, dtype=dtype).__enter__()

    def __exit__(self, *exc_info: object) -> Literal[False]:
        return False
