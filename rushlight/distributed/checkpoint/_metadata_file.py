"""`.metadata`: a pickle of Metadata, as PyTorch writes it. It is read as data; nothing in it runs.

Only the classes of metadata are made, by the interpreter of opcodes that load() has, and every
field is checked afterwards: sizes and chunks fit, and files lie in the checkpoint's folder.
"""

from __future__ import annotations

import os
import pickle
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from rushlight import _C
from rushlight.distributed.checkpoint import metadata as classes
from rushlight.distributed.checkpoint.filesystem import _StorageInfo
from rushlight.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from rushlight.distributed.checkpoint.storage import WriteResult

_HERE = "torch.distributed.checkpoint"
_BEFORE = "torch.distributed._shard.sharded_tensor.metadata"  # up to PyTorch 2.2
_MADE = {
    **{f"{_HERE}.metadata.{name}": getattr(classes, name) for name in classes.__all__},
    f"{_HERE}.filesystem._StorageInfo": _StorageInfo,
    f"{_HERE}.storage.WriteResult": WriteResult,
    f"{_BEFORE}.TensorProperties": TensorProperties,
}
_FORMAT: Any = classes._MEM_FORMAT_ENCODING


def dumps(value: Any) -> bytes:
    """The pickle, with PyTorch's names."""
    from rushlight.serialization._tensor_writer import TensorWriter

    writer = TensorWriter()
    writer.dump(value)
    if writer.storages:
        raise ValueError(
            "distributed.checkpoint: planner_data and storage_data cannot hold tensors; put them "
            "into the state dict"
        )
    return writer.getvalue()


def loads(data: bytes) -> Any:
    """What dumps or PyTorch wrote, unchecked."""
    from rushlight.serialization._allowed import Allowed, full_name
    from rushlight.serialization._pickle_reader import Global, PickleReader

    def encoded(reader: Any, value: Any) -> Any:
        return _FORMAT(value)

    def member(reader: Any, owner: Any, name: Any) -> Any:  # Python 3.11 names members this way
        if owner is not _FORMAT or name not in _FORMAT.__members__:
            raise pickle.UnpicklingError("getattr is only known for memory formats")
        return _FORMAT[name]

    def path(kind: Any) -> Any:
        def make(reader: Any, *parts: Any) -> str:
            if not all(type(part) is str for part in parts):
                raise pickle.UnpicklingError("the parts of a path must be text")
            return str(kind(*parts))

        return make

    allowed = Allowed()
    special = {
        f"{_HERE}.metadata._MEM_FORMAT_ENCODING": Global("memory format", _FORMAT, encoded),
        f"{_BEFORE}.MEM_FORMAT_ENCODING": Global("memory format", _FORMAT, encoded),
        "builtins.getattr": Global("getattr", getattr, member),
    }
    for module in ("pathlib", "pathlib._local"):
        for name in ("PosixPath", "PurePosixPath"):
            special[f"{module}.{name}"] = Global("path", PurePosixPath, path(PurePosixPath))
        for name in ("WindowsPath", "PureWindowsPath"):
            special[f"{module}.{name}"] = Global("path", PureWindowsPath, path(PureWindowsPath))

    def find(module: str, name: str) -> Any:
        full = full_name(module, name)
        if full in _MADE:
            kind: Any = _MADE[full]
            return Global(full, kind, lambda reader, *args: kind(*args), is_users=True)
        return special.get(full) or allowed.find(module, name)

    def refuse(pid: Any) -> Any:
        raise pickle.UnpicklingError("metadata cannot hold tensors")

    return PickleReader(data, find, refuse).load()


def read(data: bytes, where: Any) -> Metadata:
    """The metadata of a file, checked."""
    try:
        found = loads(data)
        _check(found)
    except (pickle.UnpicklingError, ValueError, TypeError, AttributeError) as error:
        raise pickle.UnpicklingError(
            f"distributed.checkpoint: {where} is no metadata of a checkpoint: {error}"
        ) from error
    return found


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _is_size(value: Any) -> bool:
    return isinstance(value, _C.Size) and all(n >= 0 for n in value)


def _check(found: Any) -> None:
    _require(isinstance(found, Metadata), f"it holds a {type(found).__name__}")
    _require(isinstance(found.state_dict_metadata, dict), "state_dict_metadata is no dict")
    for name, md in found.state_dict_metadata.items():
        _require(isinstance(name, str), f"a name is {name!r}")
        if not isinstance(md, BytesStorageMetadata):
            _require(isinstance(md, TensorStorageMetadata), f"{name} is a {type(md).__name__}")
            _check_tensor(name, md)
    if isinstance(found.planner_data, dict):
        for name, path in found.planner_data.items():
            whole = isinstance(path, tuple) and all(type(key) in (str, int) for key in path)
            _require(not isinstance(path, tuple) or (whole and path != ()), f"{name}: path {path}")
            places = [key for key in path if type(key) is int] if whole else []
            _require(all(0 <= k < 1_000_000 for k in places), f"{name}: a place in a list: {path}")
    if isinstance(found.storage_data, dict):
        for index, info in found.storage_data.items():
            _require(isinstance(index, MetadataIndex), f"storage_data has the key {index!r}")
            if isinstance(info, _StorageInfo):
                _check_info(index.fqn, info)
    meta = found.storage_meta
    _require(meta is None or isinstance(meta, StorageMeta), "storage_meta is something else")


def _check_tensor(name: str, md: TensorStorageMetadata) -> None:
    fits = isinstance(md.properties, TensorProperties) and isinstance(md.properties.dtype, _C.dtype)
    _require(fits, f"{name} has no dtype")
    _require(_is_size(md.size) and isinstance(md.chunks, list), f"{name} has no size")
    for chunk in md.chunks:
        _require(isinstance(chunk, ChunkStorageMetadata), f"{name}: a chunk is {chunk!r}")
        boxed = _is_size(chunk.offsets) and _is_size(chunk.sizes)
        boxed = boxed and len(chunk.offsets) == len(chunk.sizes) == len(md.size)
        ends = zip(chunk.offsets, chunk.sizes, md.size, strict=False)
        inside = boxed and all(first + n <= whole for first, n, whole in ends)
        _require(inside, f"a chunk of {name} is not inside of {list(md.size)}: {chunk}")


def _check_info(name: str, info: _StorageInfo) -> None:
    _require(isinstance(info.relative_path, str), f"{name}: a file is {info.relative_path!r}")
    steps = info.relative_path.replace("\\", "/").split("/")
    outside = os.path.isabs(info.relative_path) or ".." in steps or "\0" in info.relative_path
    _require(not outside, f"{name} is said to be in {info.relative_path!r}, outside of the folder")
    for number in (info.offset, info.length):
        _require(type(number) is int and 0 <= number < 1 << 63, f"{name}: a place {number!r}")
