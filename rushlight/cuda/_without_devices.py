"""The functions of rushlight.cuda for a machine without a GPU: questions are answered, switches
do no harm, and what needs a GPU raises."""

import functools

from rushlight import _C

__all__ = """CUDAGraph CUDAPluggableAllocator DeferredCudaCallError Event ExternalStream
OutOfMemoryError Stream StreamContext can_device_access_peer check_error clock_rate cudart
current_blas_handle current_device current_stream default_generators default_stream device
device_memory_used device_of empty_cache get_allocator_backend get_arch_list get_device_capability
get_device_name get_device_properties get_gencode_flags get_rng_state get_rng_state_all
get_sync_debug_mode graph graph_pool_handle init initial_seed ipc_collect is_bf16_supported
is_current_stream_capturing is_initialized is_tf32_supported list_gpu_processes
make_graphed_callables manual_seed manual_seed_all max_memory_allocated max_memory_cached
max_memory_reserved mem_get_info memory_allocated memory_cached memory_reserved memory_snapshot
memory_stats memory_stats_as_nested_dict memory_summary memory_usage power_draw
reset_accumulated_memory_stats reset_max_memory_allocated reset_max_memory_cached
reset_peak_memory_stats seed seed_all set_device set_per_process_memory_fraction set_rng_state
set_rng_state_all set_stream set_sync_debug_mode stream synchronize temperature utilization
""".split()

OutOfMemoryError = _C.OutOfMemoryError
default_generators = ()
has_half = False


class DeferredCudaCallError(Exception):
    """An error in a call that had to wait for CUDA's start."""


def _refuse(what):
    raise _C.DeviceError(
        f"cuda.{what}: no CUDA device is available; guard the call with cuda.is_available(), or "
        "run on the CPU"
    )


def _refusing(name):
    def refused(*args, **kwargs):
        _refuse(name)

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = "Needs a CUDA device; raises without one."
    return refused


for _name in """current_device current_stream default_stream get_device_capability get_device_name
        get_device_properties get_rng_state set_rng_state mem_get_info cudart can_device_access_peer
        current_blas_handle clock_rate power_draw temperature utilization memory_usage
        device_memory_used list_gpu_processes graph_pool_handle make_graphed_callables
        set_per_process_memory_fraction check_error initial_seed init synchronize
        ExternalStream CUDAPluggableAllocator""".split():
    globals()[_name] = _refusing(_name)


def _nothing(name, doc):
    def does_nothing(*args, **kwargs):
        return None

    does_nothing.__name__ = does_nothing.__qualname__ = name
    does_nothing.__doc__ = doc
    globals()[name] = does_nothing


for _name in """empty_cache ipc_collect reset_peak_memory_stats reset_accumulated_memory_stats
        reset_max_memory_allocated reset_max_memory_cached""".split():
    _nothing(_name, "Does nothing without a CUDA device.")
for _name in ("manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state_all"):
    _nothing(_name, "Does nothing without a CUDA device: the CPU has its own generator.")
_nothing("set_sync_debug_mode", "Does nothing without a CUDA device.")


def _zero(name):
    def zero(device=None):
        """0: no memory of a CUDA device is in use."""
        return 0

    zero.__name__ = zero.__qualname__ = name
    globals()[name] = zero


for _name in """memory_allocated max_memory_allocated memory_reserved max_memory_reserved
        memory_cached max_memory_cached""".split():
    _zero(_name)


def set_device(device):
    """Makes a CUDA device the current one; a negative number means none."""
    index = device if isinstance(device, int) else _C.device(device).index
    if index is None or index >= 0:
        _refuse("set_device")


def is_initialized():
    """Whether CUDA was started."""
    return False


def is_bf16_supported(including_emulation=True):
    """Whether the GPU computes in bfloat16."""
    return False


def is_tf32_supported():
    """Whether the GPU computes in TF32."""
    return False


def is_current_stream_capturing():
    """Whether a CUDA graph is being captured."""
    return False


def get_rng_state_all():
    """The states of all GPUs' generators: none."""
    return []


def get_arch_list():
    """The architectures that kernels were built for: none."""
    return []


def get_gencode_flags():
    """The compiler flags for these: none."""
    return ""


def get_sync_debug_mode():
    """What to do about operations that wait for the GPU: 0, nothing."""
    return 0


def get_allocator_backend():
    """The allocator of GPU memory."""
    return "native"


def memory_stats(device=None):
    """Counters of GPU memory: none."""
    return {}


memory_stats_as_nested_dict = memory_stats


def memory_snapshot(mempool_id=None):
    """The blocks of GPU memory: none."""
    return []


def memory_summary(device=None, abbreviated=False):
    """The counters as text."""
    return "no CUDA device is available"


class device:
    """A with block on another GPU; numbers below zero and None change nothing."""

    def __init__(self, device):
        index = device if isinstance(device, int) else None
        if device is not None and index is None:
            found = _C.device(device)
            index = 0 if found.type == "cuda" and found.index is None else found.index
            index = index if found.type == "cuda" else -1
        self.idx = -1 if index is None else index
        self.prev_idx = -1

    def __enter__(self):
        if self.idx >= 0:
            _refuse("device")

    def __exit__(self, *error):
        return False


class device_of(device):
    """A with block on the GPU of a tensor; does nothing for tensors elsewhere."""

    def __init__(self, obj):
        place = getattr(obj, "device", None)
        super().__init__(place if place is not None and place.type == "cuda" else None)


class Stream:
    """A queue of work on a GPU; cannot be made without one."""

    def __init__(self, device=None, priority=0, **kwargs):
        _refuse("Stream")

    def wait_stream(self, stream):
        """Lets this queue wait for another one."""

    def wait_event(self, event):
        """Lets this queue wait for an event."""

    def record_event(self, event=None):
        """Marks a place in the queue."""

    def synchronize(self):
        """Waits for the queue."""

    def query(self):
        """Whether the queue is empty."""


class Event:
    """A mark in a queue of work; can be made, but not recorded, without a GPU."""

    def __init__(self, enable_timing=False, blocking=False, interprocess=False, external=False):
        self.enable_timing = enable_timing

    def record(self, stream=None):
        """Marks a place in the queue."""
        _refuse("Event.record")

    def wait(self, stream=None):
        """Lets a queue wait for the mark."""
        _refuse("Event.wait")

    def query(self):
        """Whether the work before the mark is done: nothing was recorded."""
        return True

    def synchronize(self):
        """Waits for the mark: nothing was recorded."""

    def elapsed_time(self, end_event):
        """Milliseconds between two marks."""
        _refuse("Event.elapsed_time")


class StreamContext:
    """A with block on another queue; None changes nothing."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        if self.stream is not None:
            _refuse("stream")

    def __exit__(self, *error):
        return False


def stream(stream):
    """A with block on another queue; None changes nothing."""
    return StreamContext(stream)


def set_stream(stream):
    """Makes another queue the current one; None changes nothing."""
    if stream is not None:
        _refuse("set_stream")


class CUDAGraph:
    """Work of a GPU, recorded to run again; cannot be made without one."""

    def __init__(self, keep_graph=False):
        _refuse("CUDAGraph")


class graph:
    """A with block whose work is recorded into a CUDAGraph."""

    def __init__(self, cuda_graph, pool=None, stream=None, capture_error_mode="global"):
        _refuse("graph")


@functools.cache
def _typed(name, dtype):
    """cuda.FloatTensor: names a dtype on a GPU; making one raises."""

    class Meta(type):
        def __call__(cls, *args, **kwargs):
            _refuse(name)

        def __instancecheck__(cls, instance):
            return (
                isinstance(instance, _C.Tensor)
                and instance.dtype == dtype
                and instance.device.type == "cuda"
            )

    return Meta(name, (), {"dtype": dtype, "is_cuda": True, "__module__": "rushlight.cuda"})


def legacy_types():
    """FloatTensor and its relatives."""
    from rushlight._legacy import TYPES

    return {name: _typed(name, cls.dtype) for name, cls in TYPES.items()}
