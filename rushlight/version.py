"""Which Rushlight this is, and what it was built with."""

from rushlight._C import __version__

cuda = None  # the CUDA version of the build; None without CUDA
hip = None
debug = False
git_version = "unknown"

__all__ = ["__version__", "cuda", "debug", "git_version", "hip"]
