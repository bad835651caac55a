"""The memory of CPU tensors from functions of your own."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from rushlight import _C

__all__ = ["CPUPluggableAllocator", "change_current_allocator"]

_current: CPUPluggableAllocator | None = None


class CPUPluggableAllocator:
    """Two functions of a shared library: `void* allocate(size_t size)`, which returns null or
    memory that is aligned to 64 bytes, and `void free(void* memory, size_t size)`. Any thread may
    call them."""

    def __init__(
        self, path_to_so_file: str | os.PathLike[str], alloc_fn_name: str, free_fn_name: str
    ) -> None:
        self._library: Any = ctypes.CDLL(os.fspath(path_to_so_file))
        self._addresses = tuple(
            ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value
            for name in (alloc_fn_name, free_fn_name)
        )


def change_current_allocator(allocator: CPUPluggableAllocator | None) -> None:
    """From now on the memory of CPU tensors comes from there, uncached; None: from the library's
    own allocator again. What was allocated before goes back to where it came from."""
    global _current
    if allocator is None:
        _C._set_user_allocator(0, 0)
    elif isinstance(allocator, CPUPluggableAllocator):
        _C._set_user_allocator(*allocator._addresses)
    else:
        raise TypeError(
            f"change_current_allocator: expected a CPUPluggableAllocator or None, not "
            f"{type(allocator).__name__}"
        )
    _current = allocator
