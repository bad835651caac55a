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
    programs read."""
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


def _is_torchscript(file):
    import zipfile

    try:
        with zipfile.ZipFile(os.fsdecode(file) if isinstance(file, bytes) else file) as archive:
            return any(name.endswith("/constants.pkl") for name in archive.namelist())
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):
        return False


def load(
    f: FileLike | Any,
    map_location: Device = None,
    _extra_files: dict[str, Any] | None = None,
    _restore_shapes: bool = False,
) -> TopLevelTracedModule:
    """A program from a file. Tensors go to map_location, or to the devices they were on.

    Of _extra_files, a dict, those values are filled in whose names the file has.
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
    try:
        capsule, state, extra = _C._jit_load(data, path, device)
    except RuntimeError as error:
        if _is_torchscript(path if data is None else io.BytesIO(data)):
            raise RuntimeError(
                "jit.load: this is a TorchScript archive of PyTorch, not read yet; save the "
                "model's state_dict with PyTorch, load it here, and trace the model"
            ) from error
        raise
    for name in _extra_files or ():
        if name in extra:
            _extra_files[name] = extra[name]  # type: ignore[index]
    return loaded_module(Code(capsule), state)
