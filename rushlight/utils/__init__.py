"""Tools around tensors."""

from rushlight.utils import checkpoint as checkpoint
from rushlight.utils import dlpack as dlpack
from rushlight.utils import hooks as hooks
from rushlight.utils import safetensors as safetensors


def __getattr__(name):
    # Loaded when first used, to keep the import of the package short.
    if name == "data":
        import importlib

        return importlib.import_module("rushlight.utils.data")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
