"""DataParallel: a batch cut into pieces for several devices."""

from rushlight import _C
from rushlight.nn.modules import Module

__all__ = ["DataParallel", "data_parallel"]


def _check_devices(device_ids):
    """One device, or none named: the model runs where it is."""
    if device_ids is not None and len({str(d) for d in device_ids}) > 1:
        raise NotImplementedError(
            f"DataParallel: a batch is not cut for several devices ({list(device_ids)}) yet; give "
            "one device"
        )


class DataParallel(Module):
    """Calls the module it holds, on the one device there is; `.module` is the module, and the names
    in its state_dict begin with "module."."""

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        from rushlight import cuda

        _check_devices(device_ids)
        self.module = module
        self.dim = dim
        self.device_ids = []
        self.output_device = output_device
        if cuda.is_available() and device_ids is not None:
            self.device_ids = [
                _C.device("cuda", d) if isinstance(d, int) else d for d in device_ids
            ]

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """module(*inputs), on the one device there is."""
    _check_devices(device_ids)
    inputs = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    return module(*inputs, **(module_kwargs or {}))
