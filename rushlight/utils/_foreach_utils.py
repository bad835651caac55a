"""Lists of tensors by device and dtype."""

from rushlight import _C


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


def _in_one_pass(function, *args):
    """What one of the passes over lists (`_C._list_map` and its relatives) returns: something false
    where it does not take them. A program that is being traced has to see the operators."""
    return not _C._jit_is_tracing() and function(*args)


def _not_yet(tensors, pass_over):
    """Those lists that a pass does not take: it is tried on all tensors at once, then on those of
    each device and dtype."""
    if not tensors or pass_over(tensors):
        return []
    groups = _group_tensors_by_device_and_dtype([tensors]).values()
    return [group for (group,), _ in groups if not pass_over(group)]


def _zero_grads(parameters):
    """Cuts the gradients off their graphs, and fills them with zeros."""
    grads = [p.grad for p in parameters if p.grad is not None]
    for grad in grads:
        if grad.grad_fn is not None:
            grad.detach_()
        else:
            grad.requires_grad_(False)
    for grad in grads:
        if grad.layout is not _C.strided:
            grad.zero_()
    grads = [grad for grad in grads if grad.layout is _C.strided]
    for group in _not_yet(grads, lambda group: _in_one_pass(_C._list_fill_, group, 0.0)):
        for grad in group:
            grad.zero_()


def _copy_tensors(to, source):
    """Copies each tensor of a list into another's."""
    groups = {}
    for a, b in zip(to, source, strict=True):
        pairs = groups.setdefault((a.device, a.dtype, b.device, b.dtype), ([], []))
        pairs[0].append(a)
        pairs[1].append(b)
    for a, b in groups.values():
        if not _in_one_pass(_C._list_copy_, a, b):
            for t, value in zip(a, b, strict=True):
                t.copy_(value)
