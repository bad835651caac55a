"""Programs in files."""

from __future__ import annotations

import io
import os
from typing import Any

from rushlight import _C
from rushlight.jit._modules import ScriptModule
from rushlight.jit._program import Code, ScriptFunction, TopLevelTracedModule, loaded_module
from rushlight.types import Device, FileLike

__all__ = ["load", "save"]


def save(m: Any, f: FileLike | Any, _extra_files: dict[str, Any] | None = None) -> None:
    """Writes what jit.trace or jit.script made to a file (model.rush), which jit.load and C++
    programs read.

    Arguments:
        m: what trace or script made.
        f: a path, or a file opened for writing bytes.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> rl.jit.save(rl.jit.trace(nn.ReLU(), (rl.zeros(1),)), file)
        >>> _ = file.seek(0)
        >>> rl.jit.load(file)(rl.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """
    if not isinstance(m, TopLevelTracedModule | ScriptFunction):
        if not isinstance(m, ScriptModule):
            raise TypeError(
                f"jit.save: expected what jit.trace or jit.script made, got {type(m).__name__}; "
                "for "
                "its weights alone, save the state_dict"
            )
        from rushlight.jit._scripted import script_module

        m = script_module(m)
    m.save(f, _extra_files)


def _archive_source(f, data):
    """Where a TorchScript archive of PyTorch is read from; None where it is none."""
    from rushlight.serialization._sources import FileSource
    from rushlight.serialization._zip_reader import ZipReader

    file: Any = io.BytesIO(data) if data is not None else open(f, "rb")
    try:
        source = FileSource(file)
        if source.length >= 4 and source.read(0, 4) == b"PK\x03\x04":
            names = ZipReader(source, False)
            if "constants.pkl" in names:
                return source
    except (OSError, ValueError, RuntimeError):
        pass
    file.close()
    return None


def load(
    f: FileLike | Any,
    map_location: Device = None,
    _extra_files: dict[str, Any] | None = None,
    _restore_shapes: bool = False,
) -> TopLevelTracedModule:
    """A program from a file. Tensors go to map_location, or to the devices they were on.

    TorchScript archives of PyTorch give their weights, and their program where all its operators
    are known here; else a call of it names the one that is not.

    Of _extra_files, a dict, those values are filled in whose names the file has.

    Arguments:
        f: a path, or a file opened for reading bytes.
        map_location: where tensors go; None is where they were.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> rl.jit.save(rl.jit.trace(nn.Tanh(), (rl.zeros(1),)), file)
        >>> _ = file.seek(0)
        >>> rl.jit.load(file, map_location="cpu")(rl.zeros(2))
        tensor([0., 0.])
    """
    device = None if map_location is None else _C.device(map_location)
    data, path = None, b""
    if hasattr(f, "read"):
        data = f.read()
    else:
        path = os.fsencode(f)
        if not os.path.exists(path):
            raise ValueError(f"jit.load: the file {os.fsdecode(path)!r} does not exist")
        if os.path.isdir(path):
            raise ValueError(f"jit.load: {os.fsdecode(path)!r} is a folder")
    archive = _archive_source(path, data)
    if archive is not None:
        return _load_archive(archive, map_location, _extra_files)
    capsule, state, extra = _C._jit_load(data, path, device)
    for name in _extra_files or ():
        if name in extra:
            _extra_files[name] = extra[name]  # type: ignore[index]
    return loaded_module(Code(capsule), state)


def _load_archive(source, map_location, extra_files):
    """A TorchScript archive; whatever is wrong with one is a RuntimeError."""
    import pickle

    from rushlight.jit._archive import load_archive

    try:
        return load_archive(source, map_location, extra_files)
    except (
        ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError,
        ValueError, EOFError, pickle.UnpicklingError,
    ) as error:  # fmt: skip
        raise RuntimeError(f"jit.load: the TorchScript archive is damaged: {error}") from error
