"""The memory of GPU tensors from functions of your own."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from rushlight._C import _cuda

__all__ = ["CUDAPluggableAllocator", "change_current_allocator"]


class _State:
    current: CUDAPluggableAllocator | None = None  # keeps the library loaded


class CUDAPluggableAllocator:
    """Two functions of a shared library that give and take back the memory of GPU tensors.

    They are `void* allocate(ssize_t size, int device, cudaStream_t stream)`, which returns null
    where there is no memory, and `void free(void* memory, ssize_t size, int device, cudaStream_t
    stream)`. Any thread may call them. change_current_allocator puts them to use.

    Arguments:
        path_to_so_file: the library.
        alloc_fn_name: the name of the first function there.
        free_fn_name: the name of the second one.

    Example:
        >>> try:
        ...     rl.cuda.CUDAPluggableAllocator("libc.so.6", "my_alloc", "my_free")
        ... except AttributeError as error:
        ...     print(error)
        CUDAPluggableAllocator: libc.so.6 has no function 'my_alloc'
    """

    def __init__(
        self, path_to_so_file: str | os.PathLike[str], alloc_fn_name: str, free_fn_name: str
    ) -> None:
        self._library: Any = ctypes.CDLL(os.fspath(path_to_so_file))
        addresses = []
        for name in (alloc_fn_name, free_fn_name):
            function = getattr(self._library, name, None)
            if function is None:
                raise AttributeError(
                    f"CUDAPluggableAllocator: {os.fspath(path_to_so_file)} has no function '{name}'"
                )
            addresses.append(ctypes.cast(function, ctypes.c_void_p).value)
        self._addresses = tuple(addresses)

    def allocator(self) -> CUDAPluggableAllocator:
        """The allocator itself."""
        return self


def change_current_allocator(allocator: CUDAPluggableAllocator | None) -> None:
    """From now on the memory of GPU tensors comes from functions of your own, uncached.

    Only while no tensor is on a GPU.

    Arguments:
        allocator: a CUDAPluggableAllocator; None for the library's own allocator.

    Example:
        >>> if rl.cuda.memory_allocated() == 0:
        ...     rl.cuda.change_current_allocator(None)
        >>> rl.cuda.get_allocator_backend()
        'native'
    """
    if allocator is not None and not isinstance(allocator, CUDAPluggableAllocator):
        raise TypeError(
            "change_current_allocator: expected a CUDAPluggableAllocator or None, not "
            f"{type(allocator).__name__}"
        )
    _cuda.set_user_allocator(*((0, 0) if allocator is None else allocator._addresses))
    _State.current = allocator


def backend_name() -> str:
    """'native', or 'pluggable' while a user's functions are in use."""
    return "native" if _State.current is None else "pluggable"
