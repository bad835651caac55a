"""Writing safetensors."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import IO

from rushlight import _C
from rushlight._C import Tensor
from rushlight.serialization._atomic import replacing
from rushlight.types import FileLike
from rushlight.utils.safetensors._format import NAME_OF_DTYPE, header_bytes


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """Named tensors as the bytes of a safetensors file.

    Arguments:
        tensors: by name.
        metadata: texts by name.

    Example:
        >>> data = rl.utils.safetensors.save({"x": rl.ones(2)}, metadata={"by": "me"})
        >>> rl.utils.safetensors.load(data)
        {'x': tensor([1., 1.])}
    """
    return b"".join(_pieces("save", tensors, metadata))


def save_file(
    tensors: Mapping[str, Tensor],
    filename: FileLike | IO[bytes],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes named tensors to a file; if anything fails, what was there stays.

    Tensors that share memory are refused, since a reader would make separate ones of them:
    save_model writes them once. `metadata` is a dict of strings.

    Arguments:
        tensors: by name.
        filename: a path, or a file opened for writing bytes.
        metadata: texts by name.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp(), "weights.safetensors")
        >>> rl.utils.safetensors.save_file({"x": rl.ones(2)}, path, metadata={"by": "me"})
        >>> rl.utils.safetensors.load_file(path)
        {'x': tensor([1., 1.])}
    """
    pieces = _pieces("save_file", tensors, metadata)
    if not isinstance(filename, (str, os.PathLike)):
        if not hasattr(filename, "writelines"):
            raise TypeError(
                f"save_file: expected a path or an open file, got {type(filename).__name__}"
            )
        filename.writelines(pieces)
        return
    with replacing(filename) as file:
        for piece in pieces:
            file.write(piece)


def _pieces(function, tensors, metadata):
    _check(function, tensors, metadata)
    shared = shared_groups(tensors)
    if shared:
        raise RuntimeError(
            f"{function}: these tensors share memory: {_listed(shared)}. The format would write "
            "each of them, and they would come back separate. Pass clones of them if that is "
            "right, or write a model with save_model, which writes tied weights once"
        )
    ready = {name: _on_cpu(tensor) for name, tensor in tensors.items()}
    header, names = header_bytes(ready, metadata)
    return [header, *(_bytes_of(ready[name]) for name in names)]


def _check(function, tensors, metadata):
    if not isinstance(tensors, dict):
        raise ValueError(
            f"{function}: expected a dict of names and tensors, got {type(tensors).__name__}"
        )
    for name, tensor in tensors.items():
        if not isinstance(name, str) or name == "__metadata__":
            raise ValueError(f"{function}: a tensor cannot be named {name!r:.80}")
        if not isinstance(tensor, Tensor):
            raise ValueError(f"{function}: {name!r} is a {type(tensor).__name__}, not a tensor")
        if tensor.device.type == "meta":
            raise ValueError(f"{function}: {name!r} is on the meta device and has no bytes")
        if tensor.dtype not in NAME_OF_DTYPE:
            raise ValueError(f"{function}: {name!r} is {tensor.dtype}, which the format lacks")
    if metadata is not None and not (
        isinstance(metadata, dict)
        and all(isinstance(part, str) for pair in metadata.items() for part in pair)
    ):
        raise ValueError(f"{function}: metadata must be a dict of strings")


def _on_cpu(tensor):
    tensor = tensor.detach()
    return (tensor if tensor.device.type == "cpu" else tensor.cpu()).contiguous()


def _bytes_of(tensor):
    n = tensor.numel() * tensor.element_size()
    if n == 0:
        return b""
    start = tensor.storage_offset() * tensor.element_size()
    return _C._own_memory(tensor.untyped_storage())[start : start + n]


def byte_range(tensor):
    """The bytes of its storage that a tensor reaches: [first, end)."""
    item = tensor.element_size()
    first = tensor.storage_offset() * item
    if tensor.numel() == 0:
        return first, first
    last = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    return first, first + (last + 1) * item


def shared_groups(tensors):
    """Lists of names whose tensors overlap in memory, names in order."""
    by_storage = {}
    for name, tensor in tensors.items():
        if tensor.numel():
            by_storage.setdefault(tensor.untyped_storage()._cdata, []).append(name)
    groups = []
    for names in by_storage.values():
        group, end = [], None
        for name in sorted(names, key=lambda name: byte_range(tensors[name])):
            first, last = byte_range(tensors[name])
            if end is not None and first < end:
                group.append(name)
                end = max(end, last)
            else:
                groups.append(group)
                group, end = [name], last
        groups.append(group)
    return [sorted(group) for group in groups if len(group) > 1]


def _listed(groups):
    return "; ".join(", ".join(repr(name) for name in group) for group in groups[:5])
