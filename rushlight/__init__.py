"""Rushlight: an imperative deep learning library."""

from rushlight._C import __version__

__all__ = ["__version__"]
