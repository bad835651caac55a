"""DLPack under the names that PyTorch gives it here."""

from rushlight._C import from_dlpack, to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
