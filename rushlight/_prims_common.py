"""Questions about dtypes, dims and strides, by PyTorch's names for its own use."""

from rushlight import _C
from rushlight._names.missing import names_missing_from

__all__ = []

Tensor = _C.Tensor
_COMPLEX_OF = {
    _C.float16: _C.complex32, _C.float32: _C.complex64, _C.float64: _C.complex128,
}  # fmt: skip
_REAL_OF = {c: r for r, c in _COMPLEX_OF.items()}
_INTEGERS = (_C.uint8, _C.int8, _C.int16, _C.int32, _C.int64, _C.uint16, _C.uint32, _C.uint64)


def alert_not_deterministic(caller):
    """Raises or warns where deterministic algorithms are asked for and `caller` has none."""
    import warnings

    import rushlight

    if not rushlight.are_deterministic_algorithms_enabled():
        return
    text = f"{caller} does not have a deterministic implementation"
    if not rushlight.is_deterministic_algorithms_warn_only_enabled():
        raise RuntimeError(f"{text}; turn off use_deterministic_algorithms() around it")
    warnings.warn(text, UserWarning, stacklevel=2)


def is_boolean_dtype(dtype):
    """Whether it is bool."""
    return dtype is _C.bool


def is_integer_dtype(dtype):
    """Whether it is an integer type."""
    return dtype in _INTEGERS


def is_float_dtype(dtype):
    """Whether it is a floating type."""
    return dtype.is_floating_point


def is_complex_dtype(dtype):
    """Whether it is a complex type."""
    return dtype.is_complex


def is_low_precision_dtype(dtype):
    """Whether it is a half type."""
    return dtype in (_C.float16, _C.bfloat16)


def corresponding_real_dtype(dtype):
    """float32 for complex64 and so on."""
    return _REAL_OF[dtype]


def corresponding_complex_dtype(dtype):
    """complex64 for float32 and so on."""
    return _COMPLEX_OF[dtype]


def dtype_to_type(dtype):
    """The type of Python's numbers: bool, int, float or complex."""
    if dtype is _C.bool:
        return bool
    if dtype.is_complex:
        return complex
    return float if dtype.is_floating_point else int


def canonicalize_dim(rank, idx, wrap_scalar=True):
    """A dim counted from the front."""
    rank = max(rank, 1) if wrap_scalar else rank
    if not -rank <= idx < rank:
        raise IndexError(f"dim {idx} is out of range: it must lie in [{-rank}, {rank - 1}]")
    return idx % rank


def canonicalize_dims(rank, indices, wrap_scalar=True):
    """One dim or several, counted from the front."""
    if isinstance(indices, int):
        return canonicalize_dim(rank, indices, wrap_scalar)
    return tuple(canonicalize_dim(rank, i, wrap_scalar) for i in indices)


def make_contiguous_strides_for(shape, row_major=True):
    """Strides of a contiguous tensor; with row_major False its last two dims are swapped."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    strides.reverse()
    if not row_major and len(shape) > 1:
        strides[-1], strides[-2] = max(shape[-2], 1), 1
    return tuple(strides)


def is_contiguous(a, *args, **kwargs):
    """Whether the tensor lies in one piece, its last dimension fastest."""
    return a.is_contiguous()


is_contiguous_or_false = is_contiguous


def suggest_memory_format(x):
    """channels_last where the tensor lies so, else contiguous_format."""
    formats = {4: _C.channels_last, 5: _C.channels_last_3d}
    wanted = formats.get(x.dim())
    if wanted is not None and not x.is_contiguous() and x.is_contiguous(memory_format=wanted):
        return wanted
    return _C.contiguous_format


__getattr__ = names_missing_from(__name__)
