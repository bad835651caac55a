"""Tools around tensors."""

from __future__ import annotations

from typing import Any

from rushlight._C import Tensor
from rushlight._names.missing import MissingNameError, submodule_or_raise
from rushlight.utils import checkpoint as checkpoint
from rushlight.utils import hooks as hooks

# Where CMake finds Rushlight for C++ programs: -DCMAKE_PREFIX_PATH=...
cmake_prefix_path = __file__.removesuffix("utils/__init__.py") + "share/cmake"

# Loaded when first used.
_SUBMODULES = """_pytree backend_registration benchmark bottleneck collect_env cpp_extension data
deterministic dlpack file_baton flop_counter mobile_optimizer model_zoo safetensors serialization
tensorboard""".split()


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchanges two tensors, so that every reference to one now sees the other."""
    from rushlight.utils._swap import swap_tensors as run

    run(t1, t2)


def set_module(obj: Any, mod: Any) -> None:
    """Says to which module an object belongs."""
    if not isinstance(mod, str):
        raise TypeError(f"set_module: expected the name of a module, got {type(mod).__name__}")
    obj.__module__ = mod


def __getattr__(name: str) -> Any:
    try:
        return submodule_or_raise(__name__, name)
    except ImportError as error:  # tensorboard's package is not installed: hasattr should be False
        raise MissingNameError(__name__, name) from error


def __dir__() -> list[Any]:
    return sorted({*globals(), *_SUBMODULES})
