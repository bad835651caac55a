"""Facts about this build and its files."""

from __future__ import annotations

from rushlight.storage import _from_file

__all__ = [
    "AcceleratorError",
    "FatalError",
    "compiled_with_cxx11_abi",
    "from_file",
    "get_file_path",
    "has_cuda",
    "has_cudnn",
    "has_lapack",
    "has_mkl",
    "has_mkldnn",
    "has_mps",
    "has_openmp",
    "has_spectral",
    "is_vulkan_available",
]


from_file = _from_file
has_lapack = has_openmp = True
has_mkl = has_spectral = has_cuda = has_mps = has_cudnn = has_mkldnn = False


def compiled_with_cxx11_abi() -> bool:
    """Whether the library uses the strings of C++11: it does.

    Example:
        >>> rl.compiled_with_cxx11_abi()
        True
    """
    return True


def get_file_path(*path_components: str) -> str:
    """A path inside the package's folder.

    Example:
        >>> rl.get_file_path("docs", "compatibility.md").endswith("rushlight/docs/compatibility.md")
        True
    """
    import os

    import rushlight

    return os.path.join(os.path.dirname(rushlight.__file__), *path_components)


def is_vulkan_available() -> bool:
    """Whether Vulkan devices are there: no.

    Example:
        >>> rl.is_vulkan_available()
        False
    """
    return False


class AcceleratorError(RuntimeError):
    """An error that a GPU reports."""


class FatalError(Exception):
    """An error after which the process cannot go on."""
