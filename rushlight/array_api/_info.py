"""What a program may ask the namespace about itself."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight import _C
from rushlight.types import _dtype


@dataclass(frozen=True)
class FloatLimits:
    """What finfo tells; `dtype` is one, where PyTorch's has its name."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: _dtype

    @classmethod
    def of(cls, dtype: _dtype) -> FloatLimits:
        """Those of a floating or complex dtype."""
        f = _C.finfo(dtype)
        return cls(f.bits, f.eps, f.max, f.min, f.smallest_normal, getattr(_C, f.dtype))


@dataclass(frozen=True)
class IntLimits:
    """What iinfo tells; `dtype` is one, where PyTorch's has its name."""

    bits: int
    max: int
    min: int
    dtype: _dtype

    @classmethod
    def of(cls, dtype: _dtype) -> IntLimits:
        """Those of an integer dtype."""
        i = _C.iinfo(dtype)
        return cls(i.bits, i.max, i.min, getattr(_C, i.dtype))


_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


def dtypes_of_kind(kind):
    """The dtypes of a kind, of a tuple of kinds, or all of them."""
    if kind is None:
        names = ("bool", *_KINDS["numeric"])
    elif isinstance(kind, tuple):
        names = [name for k in kind for name in dtypes_of_kind(k)]
    elif kind in _KINDS:
        names = _KINDS[kind]
    else:
        raise ValueError(f"dtypes: kind must be one of {', '.join(_KINDS)}, got {kind!r}")
    return {name: getattr(_C, name) for name in names}


class _Info:
    """See the standard's page on inspection."""

    def capabilities(self):
        """What depends on the data or is limited."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self):
        """Where new arrays are."""
        return _C.get_default_device() if hasattr(_C, "get_default_device") else _C.device("cpu")

    def default_dtypes(self, *, device=None):
        """The dtypes that Python's numbers become."""
        real = _C.get_default_dtype()
        both = {_C.float32: _C.complex64, _C.float64: _C.complex128}
        return {
            "real floating": real,
            "complex floating": both.get(real, _C.complex64),
            "integral": _C.int64,
            "indexing": _C.int64,
        }

    def dtypes(self, *, device=None, kind=None):
        """The dtypes there are, by name."""
        return dtypes_of_kind(kind)

    def devices(self):
        """The devices there are."""
        from rushlight import cuda

        gpus = [_C.device("cuda", i) for i in range(cuda.device_count())]
        return (_C.device("cpu"), *gpus)


def __array_namespace_info__() -> _Info:
    """An object that answers questions about the namespace."""
    return _Info()
