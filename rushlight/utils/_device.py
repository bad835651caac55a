"""The default device as a context manager."""

from rushlight._C import device as DeviceContext  # with device("meta"): ...

__all__ = ["DeviceContext"]
