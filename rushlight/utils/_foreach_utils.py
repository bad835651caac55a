"""Lists of tensors by device and dtype."""


def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices=False):
    """Lists of tensors that lie beside each other, split by the device and dtype of the first
    list's."""
    groups = {}
    for i, first in enumerate(tensorlistlist[0]):
        key = (first.device, first.dtype)
        lists, indices = groups.setdefault(key, ([[] for _ in tensorlistlist], []))
        for into, source in zip(lists, tensorlistlist, strict=True):
            into.append(source[i] if source else None)
        indices.append(i)
    return {k: (lists, indices if with_indices else []) for k, (lists, indices) in groups.items()}


def _get_foreach_kernels_supported_devices():
    return ["cpu", "cuda"]


def _get_fused_kernels_supported_devices():
    return ["cpu", "cuda"]


def _has_foreach_support(tensors, device):
    """Whether the loops over lists of tensors serve these."""
    return _device_has_foreach_support(device)


def _device_has_foreach_support(device):
    """Whether the loops over lists of tensors serve this device."""
    return device.type in _get_foreach_kernels_supported_devices()
