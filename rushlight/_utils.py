"""What pickled tensors call when they come back. The names are part of the file format."""

import threading

from rushlight import _C


def tensor_from_storage(storage, dtype, offset, size, stride):
    """A tensor over the bytes of a storage; raises when the geometry does not fit them."""
    return _C._tensor_from_storage(storage, dtype, offset, size, stride)


class _Sending(threading.local):
    keeps_gpu = False  # pickled tensors bring their storage on the GPU, not a copy of it


sending = _Sending()


def rebuild_tensor(storage, dtype, offset, size, stride, requires_grad, device):
    if storage is None:
        out = _C.empty_strided(size, stride, dtype=dtype, device=device)
    else:
        out = tensor_from_storage(storage, dtype, offset, size, stride)
        if device != "cpu":
            out = out.to(device)
    return out.requires_grad_() if requires_grad else out


def rebuild_subclass(cls, args, state, slots):
    out = rebuild_tensor(*args)
    if cls is not _C.Tensor:
        out = _C.Tensor._make_subclass(cls, out, out.requires_grad)
    for name, value in {**state, **slots}.items():
        setattr(out, name, value)
    return out


# ----- names of PyTorch's torch._utils


def _flatten_dense_tensors(tensors):
    """All tensors as one of one dimension."""
    flat = [t.reshape(-1) for t in tensors]
    return flat[0] if len(flat) == 1 else _C.cat(flat)


def _unflatten_dense_tensors(flat, tensors):
    """The pieces of a flat tensor in the shapes of others."""
    pieces = flat.split([t.numel() for t in tensors])
    return tuple(p.view(t.shape) for p, t in zip(pieces, tensors, strict=True))


def _rebuild_tensor(storage, storage_offset, size, stride):
    """A tensor over a storage of elements."""
    return tensor_from_storage(storage.untyped(), storage.dtype, storage_offset, size, stride)


def _rebuild_tensor_v2(
    storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None
):
    """A tensor over a storage of elements, as PyTorch's files describe it."""
    out = _rebuild_tensor(storage, storage_offset, size, stride)
    return out.requires_grad_() if requires_grad else out


def _rebuild_parameter(data, requires_grad, backward_hooks):
    """A parameter, as PyTorch's files describe it."""
    from rushlight.nn import Parameter

    return Parameter(data, requires_grad)


def _element_size(dtype):
    """The bytes of one element."""
    return dtype.itemsize


def _get_device_index(device, optional=False, allow_cpu=False):
    """The number of a GPU."""
    if isinstance(device, int):
        return device
    found = None if device is None else _C.device(device)
    if found is not None and found.type == "cpu" and allow_cpu:
        return -1
    if found is not None and found.type != "cuda":
        raise ValueError(f"_get_device_index: expected a CUDA device, got {found}")
    index = None if found is None else found.index
    if index is None and not optional:
        raise ValueError(f"_get_device_index: {device} has no number")
    return 0 if index is None else index


def _as_device(device):
    """A device; a number means a GPU."""
    return _C.device("cuda", device) if isinstance(device, int) else _C.device(device)


def _get_available_device_type():
    """The kind of GPU: "cuda" or None."""
    from rushlight import cuda

    return "cuda" if cuda.is_available() else None


def _get_device_module(device_type):
    """The module of a kind of device: `cpu` or `cuda`."""
    import rushlight

    if device_type not in ("cpu", "cuda"):
        raise RuntimeError(f"_get_device_module: there is no module for devices '{device_type}'")
    return getattr(rushlight, device_type)


def is_compiling():
    """Whether the code runs inside the compiler: never."""
    return False


class ExceptionWrapper:
    """An exception with the text of its traceback, to be raised in another thread or process."""

    def __init__(self, exc_info=None, where="in background"):
        import sys
        import traceback

        info = sys.exc_info() if exc_info is None else exc_info
        self.exc_type = info[0]
        self.exc_msg = "".join(traceback.format_exception(*info))
        self.where = where

    def reraise(self):
        """Raises it here."""
        text = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            text = _KeyErrorText(text)
        try:
            error = self.exc_type(text)
        except Exception:
            raise RuntimeError(text) from None
        raise error


class _KeyErrorText(str):
    """A KeyError prints its argument's repr; lines should stay lines."""

    def __repr__(self):
        return str(self)


KeyErrorMessage = _KeyErrorText


def _rebuild_nested(values, offsets, lengths, ragged_idx, jagged):
    """A nested tensor of its parts."""
    from rushlight.nested import rebuild

    return rebuild(values, offsets, lengths, ragged_idx, jagged)


def _rebuild_sparse_tensor(layout, data):
    """A sparse tensor of its parts."""
    from rushlight.sparse._create import rebuild

    return rebuild(layout, data)
