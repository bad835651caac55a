"""C++ and CUDA extensions of PyTorch: their sources speak PyTorch's C++ interface, which Rushlight
does not have, so none can be built. setup.py files may be read."""

from __future__ import annotations

import os

from rushlight._names.missing import fill

CUDA_HOME = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
ROCM_HOME = None
CUDNN_HOME = None
SYCL_HOME = None
IS_HIP_EXTENSION = False


def is_ninja_available() -> bool:
    """Whether the ninja build tool is there."""
    import shutil

    return shutil.which("ninja") is not None


def include_paths(device_type: str = "cpu", torch_include_dirs: bool = True) -> list[str]:
    """Folders of headers: none."""
    return []


def library_paths(
    device_type: str = "cpu",
    torch_include_dirs: bool = True,
    cross_target_platform: str | None = None,
) -> list[str]:
    """Folders of libraries: none."""
    return []


fill(globals())
