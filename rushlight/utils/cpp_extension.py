"""C++ and CUDA extensions of PyTorch: their sources speak PyTorch's C++ interface, which Rushlight
does not have, so none can be built. setup.py files may be read."""

import os

from rushlight._names.missing import fill

CUDA_HOME = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
ROCM_HOME = None
CUDNN_HOME = None
SYCL_HOME = None
IS_HIP_EXTENSION = False


def is_ninja_available():
    """Whether the ninja build tool is there."""
    import shutil

    return shutil.which("ninja") is not None


def include_paths(device_type="cpu", torch_include_dirs=True):
    """Folders of headers: none."""
    return []


def library_paths(device_type="cpu", torch_include_dirs=True, cross_target_platform=None):
    """Folders of libraries: none."""
    return []


fill(globals())
