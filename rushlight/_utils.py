"""What pickled tensors call when they come back. The names are part of the file format."""

from rushlight import _C


def tensor_from_storage(storage, dtype, offset, size, stride):
    """A tensor over the bytes of a storage; raises when the geometry does not fit them."""
    return _C._tensor_from_storage(storage, dtype, offset, size, stride)


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
