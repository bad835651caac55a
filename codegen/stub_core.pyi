# The parts of rushlight._C that are bound by hand, but for Tensor (stub_tensor.pyi); the generator
# puts the ops at the marks. tests/test_stubs.py compares both with the module.
#
# Several builtin types and modules have the name of a dtype or a function here, hence the aliases.
import builtins
import os
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType, TracebackType
from typing import Any, ClassVar, Literal, NoReturn, SupportsIndex, TypeAlias, TypeVar, overload

import numpy as _numpy

from rushlight import return_types as _return_types
from rushlight._quantized.schemes import QuantizationScheme as _QuantizationScheme
from rushlight.storage import TypedStorage
from rushlight.utils._images import Picture
from rushlight.utils.hooks import RemovableHandle as _RemovableHandle

_bool: TypeAlias = builtins.bool
_int: TypeAlias = builtins.int
_float: TypeAlias = builtins.float
_complex: TypeAlias = builtins.complex
_slice: TypeAlias = builtins.slice
_Number: TypeAlias = _int | _float | _complex
_T = TypeVar("_T")

__version__: str

# What the package itself uses of the core, and PyTorch's private names for parts of it.
def __getattr__(name: str) -> Any: ...

_cuda: Any
_primitive_cache_limit: Any
_share_storage: Any

class ShapeError(ValueError, RuntimeError):
    """Shapes do not go together."""

class DTypeError(TypeError, NotImplementedError):
    """A dtype is not possible here."""

class ArgumentError(ValueError, RuntimeError):
    """An argument has an impossible value."""

class ArgumentTypeError(TypeError, RuntimeError):
    """An argument has an impossible type, or no signature fits."""

class DeviceError(ValueError, RuntimeError):
    """A device is missing or does not fit."""

class RangeError(IndexError, RuntimeError):
    """An index held by a tensor is out of range."""

class IntOverflowError(OverflowError, ValueError, TypeError, RuntimeError):
    """An int does not fit into 64 bits."""

class OutOfMemoryError(MemoryError, RuntimeError):
    """An allocation failed."""

class InternalError(RuntimeError):
    """A fault of the library itself."""

class _Node:
    """An operation of the graph of gradients; its arguments are there as _saved_<name>."""

    @property
    def next_functions(self) -> tuple[tuple[_Node | None, _int], ...]: ...
    @property
    def metadata(self) -> dict[Any, Any]: ...
    def name(self) -> str: ...
    def register_hook(self, hook: Callable[..., Any], /) -> _RemovableHandle: ...
    def register_prehook(self, hook: Callable[..., Any], /) -> _RemovableHandle: ...
    def __getattr__(self, name: str) -> Any: ...

class dtype:
    """The type of a tensor's elements."""

    @property
    def is_floating_point(self) -> _bool: ...
    @property
    def is_complex(self) -> _bool: ...
    @property
    def is_signed(self) -> _bool: ...
    @property
    def itemsize(self) -> _int: ...
    def to_real(self) -> dtype: ...
    def to_complex(self) -> dtype: ...

class layout:
    """How a tensor's elements are stored."""

class memory_format:
    """The order of a tensor's dimensions in memory."""

class device:
    """Where a tensor's bytes live. In a with statement: where new tensors go."""

    @overload
    def __init__(self, type: str | device | _int) -> None: ...
    @overload
    def __init__(self, type: str, index: _int | None = None) -> None: ...
    @property
    def type(self) -> str: ...
    @property
    def index(self) -> _int | None: ...
    def __enter__(self) -> device: ...
    def __exit__(
        self,
        kind: builtins.type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

_dtype: TypeAlias = dtype
_layout: TypeAlias = layout
_memory_format: TypeAlias = memory_format
_device: TypeAlias = device
_DeviceLike: TypeAlias = device | str | _int

class Size(tuple[_int, ...]):
    """The sizes of a tensor, a tuple of ints."""

    def __new__(cls, sizes: Sequence[_int] = ()) -> Size: ...
    @overload
    def __getitem__(self, key: SupportsIndex, /) -> _int: ...
    @overload
    def __getitem__(self, key: _slice, /) -> Size: ...
    def __add__(self, other: tuple[_int, ...], /) -> Size: ...  # type: ignore[override]
    def __radd__(self, other: tuple[_int, ...], /) -> Size: ...
    def __mul__(self, count: SupportsIndex, /) -> Size: ...
    def __rmul__(self, count: SupportsIndex, /) -> Size: ...
    def numel(self) -> _int: ...

class Generator:
    """A source of random numbers."""

    def __init__(self, device: _DeviceLike = "cpu") -> None: ...
    @property
    def device(self) -> _device: ...
    def manual_seed(self, seed: _int, /) -> Generator: ...
    def seed(self) -> _int: ...
    def initial_seed(self) -> _int: ...
    def get_state(self) -> Tensor: ...
    def set_state(self, state: Tensor, /) -> Generator: ...
    def get_offset(self) -> _int: ...
    def set_offset(self, offset: _int, /) -> Generator: ...
    def clone_state(self) -> Generator: ...

class finfo:
    """The limits of a floating dtype."""

    def __init__(self, type: _dtype | None = None) -> None: ...
    @property
    def bits(self) -> _int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def eps(self) -> _float: ...
    @property
    def max(self) -> _float: ...
    @property
    def min(self) -> _float: ...
    @property
    def tiny(self) -> _float: ...
    @property
    def smallest_normal(self) -> _float: ...
    @property
    def resolution(self) -> _float: ...

class iinfo:
    """The limits of an integer dtype."""

    def __init__(self, type: _dtype) -> None: ...
    @property
    def bits(self) -> _int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def max(self) -> _int: ...
    @property
    def min(self) -> _int: ...

class UntypedStorage:
    """The bytes under one or more tensors."""

    def __init__(self, data: _int | Sequence[_int] = 0, *, device: _DeviceLike = "cpu") -> None: ...
    def __len__(self) -> _int: ...
    @overload
    def __getitem__(self, key: SupportsIndex, /) -> _int: ...
    @overload
    def __getitem__(self, key: _slice, /) -> UntypedStorage: ...
    def __setitem__(self, key: SupportsIndex | _slice, value: _int, /) -> None: ...
    @property
    def device(self) -> _device: ...
    @property
    def is_cuda(self) -> _bool: ...
    def nbytes(self) -> _int: ...
    def size(self) -> _int: ...
    def element_size(self) -> _int: ...
    def data_ptr(self) -> _int: ...
    def clone(self) -> UntypedStorage: ...
    def resize_(self, size: _int, /) -> UntypedStorage: ...
    def fill_(self, value: _int) -> UntypedStorage: ...
    def copy_(self, source: UntypedStorage, non_blocking: _bool = False) -> UntypedStorage: ...
    def tolist(self) -> list[_int]: ...
    def untyped(self) -> UntypedStorage: ...
    def is_shared(self) -> _bool: ...
    def to(self, *, device: _DeviceLike, non_blocking: _bool = False) -> UntypedStorage: ...
    def cpu(self) -> UntypedStorage: ...
    def cuda(
        self, device: _DeviceLike | None = None, non_blocking: _bool = False
    ) -> UntypedStorage: ...
    def pin_memory(self, device: _DeviceLike = "cuda") -> UntypedStorage: ...
    def is_pinned(self, device: _DeviceLike = "cuda") -> _bool: ...
    def share_memory_(self) -> UntypedStorage: ...
    @staticmethod
    def from_file(filename: str, shared: _bool = False, nbytes: _int = 0) -> UntypedStorage: ...

bool: dtype
uint8: dtype
int8: dtype
int16: dtype
int32: dtype
int64: dtype
uint16: dtype
uint32: dtype
uint64: dtype
float16: dtype
bfloat16: dtype
float8_e4m3fn: dtype
float8_e5m2: dtype
float8_e4m3fnuz: dtype
float8_e5m2fnuz: dtype
float8_e8m0fnu: dtype
float32: dtype
float64: dtype
complex32: dtype
complex64: dtype
complex128: dtype
half: dtype
float: dtype
double: dtype
short: dtype
int: dtype
long: dtype
chalf: dtype
cfloat: dtype
cdouble: dtype
contiguous_format: memory_format
preserve_format: memory_format
channels_last: memory_format
channels_last_3d: memory_format
strided: layout
sparse_coo: layout
sparse_csr: layout
sparse_csc: layout
sparse_bsr: layout
sparse_bsc: layout
jagged: layout
default_generator: Generator

def get_default_dtype() -> dtype:
    """The dtype that Python floats become."""

def set_default_dtype(d: dtype, /) -> None:
    """Sets the floating dtype that Python floats become."""

def get_default_device() -> device:
    """Where new tensors go on this thread."""

def set_default_device(device: _DeviceLike | None, /) -> None:
    """Sets where new tensors go on this thread."""

def manual_seed(seed: _int, /) -> Generator:
    """Seeds the default generator and returns it."""

def seed() -> _int:
    """Seeds the default generator from the system's entropy."""

def initial_seed() -> _int:
    """The default generator's seed."""

def get_rng_state() -> Tensor:
    """The default generator's state, as a uint8 tensor."""

def set_rng_state(new_state: Tensor, /) -> None:
    """Restores the default generator's state."""

def tensor(
    data: Any,
    *,
    dtype: _dtype | None = None,
    device: _DeviceLike | None = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor:
    """A new tensor with a copy of the data: numbers, nested sequences, arrays."""

def as_tensor(data: Any, dtype: _dtype | None = None, device: _DeviceLike | None = None) -> Tensor:
    """The data as a tensor, over the same memory where possible."""

def asarray(
    obj: Any,
    *,
    dtype: _dtype | None = None,
    device: _DeviceLike | None = None,
    copy: _bool | None = None,
    requires_grad: _bool = False,
) -> Tensor:
    """A tensor from tensors, arrays, DLPack objects, buffers, numbers and sequences."""

def from_numpy(ndarray: _numpy.ndarray[Any, Any], /) -> Tensor:
    """A tensor over the memory of a NumPy array."""

def frombuffer(
    buffer: Any,
    *,
    dtype: _dtype,
    count: _int = -1,
    offset: _int = 0,
    requires_grad: _bool = False,
) -> Tensor:
    """A 1-d tensor over the memory of an object with a buffer."""

def from_dlpack(
    ext_tensor: Any, *, device: _DeviceLike | None = None, copy: _bool | None = None
) -> Tensor:
    """A tensor over the memory of an object with __dlpack__."""

def to_dlpack(tensor: Tensor, /) -> Any:
    """A legacy DLPack capsule over the tensor's memory."""

def is_grad_enabled() -> _bool:
    """Whether operations are recorded on this thread."""

def is_inference_mode_enabled() -> _bool:
    """Whether inference mode is on for this thread."""

def is_anomaly_enabled() -> _bool:
    """Whether anomaly detection is on."""

def is_anomaly_check_nan_enabled() -> _bool:
    """Whether anomaly detection looks for NaN."""

def is_autocast_enabled(device_type: str = "cuda") -> _bool:
    """Whether autocast is on for a device type, on this thread."""

def set_autocast_enabled(device_type: str, enabled: _bool) -> None:
    """Switches autocast for a device type."""

def get_autocast_dtype(device_type: str) -> dtype:
    """The dtype that autocast casts to."""

def set_autocast_dtype(device_type: str, dtype: _dtype) -> None:
    """Sets the dtype that autocast casts to."""

def is_autocast_cache_enabled() -> _bool:
    """Whether cast weights are kept for a region."""

def set_autocast_cache_enabled(enabled: _bool, /) -> None:
    """Switches the keeping of cast weights."""

def clear_autocast_cache() -> None:
    """Forgets the cast weights."""

def autocast_increment_nesting() -> _int:
    """One region deeper; returns the depth."""

def autocast_decrement_nesting() -> _int:
    """One region less deep; returns the depth."""

def get_num_threads() -> _int:
    """Threads that one op on the CPU may use."""

def set_num_threads(n: _int, /) -> None:
    """Sets how many threads one op on the CPU may use."""

def get_num_interop_threads() -> _int:
    """Threads for independent pieces of work."""

def set_num_interop_threads(n: _int, /) -> None:
    """Sets the threads for independent pieces of work."""

def memory_stats() -> dict[str, _int]:
    """Counters of the CPU allocator, in bytes and calls."""

def reset_peak_memory_stats() -> None:
    """Starts the peaks of memory_stats anew."""

# <functions>
