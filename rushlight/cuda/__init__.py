"""NVIDIA GPUs: devices, streams, events, memory, random numbers.

Importing this, and asking whether there is a GPU, touches none: libraries are opened and a context
is made when the first tensor goes there. `why_unavailable()` says what is missing.
"""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight._names.missing import fill, names_missing_from

# These import names from above.
from rushlight.cuda import amp as amp
from rushlight.cuda import comm as comm
from rushlight.cuda import nccl as nccl  # type: ignore[attr-defined]  # made by import_hook
from rushlight.cuda import nvtx as nvtx
from rushlight.cuda import profiler as profiler
from rushlight.cuda._devices import (
    DeferredCudaCallError,
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_gencode_flags,
    init,
    is_available,
    is_bf16_supported,
    is_initialized,
    is_tf32_supported,
    set_device,
    synchronize,
    why_unavailable,
)
from rushlight.cuda._kernels import CompiledKernel, compile_kernel
from rushlight.cuda._legacy_types import TYPES as _TYPES
from rushlight.cuda.graphs import (
    CUDAGraph,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
    make_graphed_callables,
)
from rushlight.cuda.memory import (
    CUDAPluggableAllocator,
    caching_allocator_alloc,
    caching_allocator_delete,
    caching_allocator_enable,
    change_current_allocator,
    empty_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    host_memory_stats,
    ipc_collect,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from rushlight.cuda.random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from rushlight.cuda.streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    coalescing_stats,
    current_stream,
    default_stream,
    get_sync_debug_mode,
    set_stream,
    set_sync_debug_mode,
    stream,
)

OutOfMemoryError = _C.OutOfMemoryError
globals().update(_TYPES)  # FloatTensor, LongTensor, ...


has_half = True
_compile_kernel = compile_kernel  # its name in PyTorch


def _is_compiled():
    return True  # every build serves GPUs


__all__ = [
    "CUDAGraph",
    "CUDAPluggableAllocator",
    "CompiledKernel",
    "DeferredCudaCallError",
    "Event",
    "ExternalStream",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "amp",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "caching_allocator_enable",
    "can_device_access_peer",
    "change_current_allocator",
    "coalescing_stats",
    "compile_kernel",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_allocator_backend",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_gencode_flags",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_sync_debug_mode",
    "graph",
    "graph_pool_handle",
    "host_memory_stats",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_sync_debug_mode",
    "stream",
    "synchronize",
    "why_unavailable",
]

fill(globals())
_missing = names_missing_from(__name__)


def __getattr__(name: str) -> Any:
    if name == "_initialized":  # PyTorch's variable behind is_initialized
        return is_initialized()
    if name == "default_generators":  # one generator serves all devices: see random.py
        from rushlight.random import default_generator

        return (default_generator,) * device_count()
    return _missing(name)
