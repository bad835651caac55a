"""Files in the safetensors format: named tensors and nothing else, so that there is nothing to run.

    from rushlight.utils import safetensors
    safetensors.save_file({"weight": w}, "model.safetensors", metadata={"epoch": "3"})
    tensors = safetensors.load_file("model.safetensors")

load_file maps the file into memory: tensors lie in it and are read from the disk when used; writing
to them changes this process's copy only.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "SafetensorError",
    "load",
    "load_file",
    "load_model",
    "safe_open",
    "save",
    "save_file",
    "save_model",
]

_HOMES = {
    "SafetensorError": "_format",
    "load": "_read",
    "load_file": "_read",
    "safe_open": "_read",
    "save": "_write",
    "save_file": "_write",
    "load_model": "_models",
    "save_model": "_models",
}


def __getattr__(name: str) -> Any:
    # json, mmap and the rest are imported when first used.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[Any]:
    return sorted([*globals(), *__all__])
