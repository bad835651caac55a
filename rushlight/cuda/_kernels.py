"""Kernels that a program brings along as CUDA C++."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rushlight._C import Tensor, _cuda
from rushlight.cuda.streams import Stream, current_stream

__all__ = ["CompiledKernel", "compile_kernel"]

_FLOATS = {2: "e", 4: "f", 8: "d"}  # how many bytes of a parameter: how a float is written there


def compile_kernel(
    kernel_source: str,
    kernel_name: str,
    compute_capability: str | None = None,
    cuda_include_dirs: Sequence[str | os.PathLike[str]] | None = None,
    nvcc_options: Sequence[str] | None = None,
) -> CompiledKernel:
    """Compiles a CUDA kernel with NVRTC while the program runs; no toolkit is needed.

    What it gives is called with a grid, a block and the arguments; docs/custom_ops.md has an
    example, and how to make an operator of it.

    Arguments:
        kernel_source: CUDA C++.
        kernel_name: that of a `__global__` function of the source, or an instance of a template
            (`"scale<float>"`).
        compute_capability: what to compile for, such as "90"; None is the current GPU.
        cuda_include_dirs: folders with headers, besides CUDA's own where they are installed.
        nvcc_options: more options of the compiler; without a --std among them it is C++17.

    Returns:
        CompiledKernel: the kernel.

    Example:
        >>> source = "__global__ void twice(float* x) { x[threadIdx.x] *= 2; }"
        >>> rl.cuda.compile_kernel(source, "twice", compute_capability="90")
        CompiledKernel('twice')
    """
    for what, text in (("kernel_source", kernel_source), ("kernel_name", kernel_name)):
        if not isinstance(text, str):
            raise TypeError(f"compile_kernel: {what} must be a string, got {type(text).__name__}")
    if "\0" in kernel_source or "\0" in kernel_name:
        raise ValueError("compile_kernel: the source has a null character")
    for what, texts in (("cuda_include_dirs", cuda_include_dirs), ("nvcc_options", nvcc_options)):
        if isinstance(texts, str) or not all(isinstance(t, str | os.PathLike) for t in texts or ()):
            raise TypeError(f"compile_kernel: {what} must be a list of strings, got {texts!r}")
    if compute_capability is None:
        found = _cuda.properties(_cuda.check_device(-1))
        compute_capability = f"{found['major']}{found['minor']}"
    folders = [*(os.fspath(folder) for folder in cuda_include_dirs or ()), *_headers()]
    options = [*(f"-I{folder}" for folder in folders), *(nvcc_options or ())]
    if not any(o.startswith(("--std", "-std")) for o in options):
        options.insert(0, "--std=c++17")
    made = _cuda.UserKernel(kernel_source, kernel_name, str(compute_capability), options)
    return CompiledKernel(made, kernel_name)


def _headers():
    """Folders with CUDA's headers (cuda_fp16.h and others), where they are installed."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda"
    places = [os.path.join(home, "include")]
    for folder in sys.path:
        for part in ("cu13", "cuda_runtime", "cuda_nvrtc"):
            places.append(os.path.join(folder, "nvidia", part, "include"))
    return [p for p in places if os.path.isfile(os.path.join(p, "cuda_fp16.h"))][:1]


class CompiledKernel:
    """What compile_kernel gives. It is queued by a call, on the GPU of its arguments.

    Arguments:
        kernel: the kernel as the library's core has it; compile_kernel makes it.
        name: that of the function in the source.

    Example:
        >>> source = "__global__ void twice(float* x) { x[threadIdx.x] *= 2; }"
        >>> x = rl.ones(2, device="cuda" if rl.cuda.is_available() else "cpu")
        >>> if x.is_cuda:
        ...     twice = rl.cuda.compile_kernel(source, "twice")
        ...     assert isinstance(twice, rl.cuda.CompiledKernel)
        ...     twice(grid=(1,), block=(2,), args=[x])
        ... else:
        ...     x = x * 2
        >>> x.tolist()
        [2.0, 2.0]
    """

    def __init__(self, kernel: Any, name: str) -> None:
        self._kernel, self._name = kernel, name
        self._parameters: dict[int, list[int] | None] = {}  # by device

    def __repr__(self) -> str:
        return f"CompiledKernel({self._name!r})"

    def __call__(
        self,
        grid: Sequence[int] = (1, 1, 1),
        block: Sequence[int] = (1, 1, 1),
        args: Sequence[Any] | None = None,
        shared_mem: int = 0,
        stream: Stream | None = None,
    ) -> None:
        """Queues the kernel. Tensors are passed as pointers to their first element (strides are the
        kernel's business), ints, floats and bools in as many bytes as the parameter has, ctypes
        objects and NumPy scalars as they are. The stream is the current one of the arguments' GPU.
        """
        if args is not None and not isinstance(args, list | tuple):
            raise TypeError(
                f"compile_kernel: args must be a list of arguments, got {type(args).__name__}"
            )
        if stream is not None and not isinstance(stream, Stream):
            raise TypeError(
                f"compile_kernel: stream must be a cuda.Stream, got {type(stream).__name__}"
            )
        args = list(args or ())
        device = self._device_of(args, stream)
        if device not in self._parameters:
            self._parameters[device] = self._kernel.parameter_bytes(device)
        sizes = self._parameters[device]
        if sizes is not None and len(sizes) != len(args):
            raise TypeError(
                f"compile_kernel: the kernel '{self._name}' has {len(sizes)} parameters, and got "
                f"{len(args)} arguments"
            )
        packed = [
            self._packed(i, arg, None if sizes is None else sizes[i]) for i, arg in enumerate(args)
        ]
        if not _is_count(shared_mem, 0):
            raise ValueError(
                f"compile_kernel: shared_mem must be a number of bytes: {shared_mem!r}"
            )
        queue = current_stream(device) if stream is None else stream
        self._kernel.launch(
            queue._key, _three("grid", grid), _three("block", block), packed, int(shared_mem)
        )

    def set_shared_memory_config(self, shared_mem_bytes: int) -> None:
        """Asks for that much shared memory, as programs for PyTorch do; a call with `shared_mem`
        asks by itself."""
        most = _cuda.properties(_cuda.check_device(-1))["shared_memory_per_block_optin"]
        if shared_mem_bytes > most:
            raise RuntimeError(
                f"compile_kernel: {shared_mem_bytes} bytes of shared memory are asked for, and a "
                f"block of this GPU has {most} at most"
            )

    def _device_of(self, args, stream):
        found = {a.device.index for a in args if isinstance(a, Tensor) and a.is_cuda}
        if stream is not None:
            found.add(stream.device.index)
        if len(found) > 1:
            raise ValueError(
                f"compile_kernel: arguments and stream of '{self._name}' must be on one GPU, and "
                f"are on cuda:{' and cuda:'.join(map(str, sorted(found)))}"
            )
        return found.pop() if found else _cuda.check_device(-1)

    def _packed(self, i, arg, size):
        """An argument as the bytes of its parameter; size: how many it has, where that is known."""
        if isinstance(arg, Tensor):
            data = struct.pack("P", _pointer(i, arg, self._name))
        elif isinstance(arg, int):
            data = self._packed_int(i, arg, size)
        elif isinstance(arg, float):
            data = struct.pack(_FLOATS.get(size or 8, "d"), arg)
        elif isinstance(arg, ctypes._SimpleCData | ctypes.Structure | ctypes.Array):
            data = bytes(arg)
        elif hasattr(arg, "dtype") and hasattr(arg, "tobytes") and getattr(arg, "ndim", 1) == 0:
            data = arg.tobytes()
        else:
            raise TypeError(
                f"compile_kernel: argument {i} of '{self._name}' is a {type(arg).__name__}; "
                "kernels take tensors, ints, floats, bools, ctypes objects and NumPy scalars"
            )
        if size is not None and len(data) != size:
            raise TypeError(
                f"compile_kernel: parameter {i} of '{self._name}' has {size} bytes, and the "
                f"argument, a {type(arg).__name__}, has {len(data)}"
            )
        return data

    def _packed_int(self, i, arg, size):
        size = 4 if size is None else size  # an int, where the driver cannot tell
        try:
            return int(arg).to_bytes(size, "little", signed=arg < 0)
        except OverflowError:
            raise OverflowError(
                f"compile_kernel: argument {i} of '{self._name}', {arg}, does not fit into the "
                f"{size} bytes of its parameter; write the parameter as long long, and the "
                "argument as ctypes.c_int64(n) where the driver does not tell its size"
            ) from None


def _pointer(i, tensor, name):
    if not tensor.is_cuda and not (tensor.device.type == "cpu" and tensor.is_pinned()):
        raise ValueError(
            f"compile_kernel: tensor arguments must be on a GPU or in pinned memory, and argument "
            f"{i} of '{name}' is on {tensor.device}"
        )
    return tensor.data_ptr()


def _three(what, sizes):
    """(x, y, z), of which the last may be left out."""
    sizes = tuple(sizes) if isinstance(sizes, Iterable) else (sizes,)
    if not 1 <= len(sizes) <= 3 or not all(_is_count(n, 1) for n in sizes):
        raise ValueError(
            f"compile_kernel: {what} must be one to three positive ints, got {sizes!r}"
        )
    return [*map(int, sizes), 1, 1][:3]


def _is_count(value, least):
    """Whether it is an int, NumPy's among them, that the driver takes."""
    return hasattr(value, "__index__") and type(value) is not bool and least <= value < 2**31
