"""Calling several models at the same time, a thread each."""

import sys
import threading

from rushlight import _C
from rushlight._utils import ExceptionWrapper, _as_device

__all__ = ["get_a_var", "parallel_apply"]


def get_a_var(obj):
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


def parallel_apply(modules, inputs, kwargs_tup=None, devices=None):
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

    def __init__(self, module, given, kwargs, device):
        self._module, self._kwargs = module, kwargs
        self._args = tuple(given) if isinstance(given, tuple | list) else (given,)
        if device is None:
            tensor = get_a_var((self._args, kwargs))
            device = _C.device("cpu") if tensor is None else tensor.device
        self.device, self._stream = _as_device(device), None
        if self.device.type == "cuda":
            from rushlight import cuda

            self._stream = cuda.current_stream(self.device)

    def run(self):
        if self._stream is None:
            return self._module(*self._args, **self._kwargs)
        from rushlight import cuda

        with cuda.stream(self._stream):  # and its device
            return self._module(*self._args, **self._kwargs)


class _ThreadSettings:
    """What a thread inherits from the one that started it: whether operations are recorded, and
    autocast."""

    def __init__(self):
        self._grad = _C.is_grad_enabled()
        self._casts = {
            kind: (_C.is_autocast_enabled(kind), _C.get_autocast_dtype(kind))
            for kind in ("cpu", "cuda")
        }

    def __enter__(self):
        from rushlight.amp import autocast
        from rushlight.autograd import set_grad_enabled

        set_grad_enabled(self._grad)  # (the thread ends with it)
        for kind, (enabled, dtype) in self._casts.items():
            if enabled:
                autocast(kind, dtype=dtype).__enter__()

    def __exit__(self, *exc_info):
        return False
