"""How a quantized tensor's integers stand for numbers, and which integers there are."""

from __future__ import annotations

from rushlight import _C

__all__ = ["QuantizationScheme", "bounds", "storage_dtype"]


class QuantizationScheme:
    """One of the schemes, such as per_tensor_affine; compared by identity."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return repr(_C.float32).replace("float32", self.name)  # the package as reprs name it

    def __reduce__(self) -> tuple:
        return _by_name, (self.name,)


SCHEMES = {
    name: QuantizationScheme(name)
    for name in (
        *("per_tensor_affine", "per_channel_affine", "per_tensor_symmetric"),
        *("per_channel_symmetric", "per_channel_affine_float_qparams"),
    )
}


def _by_name(name: str) -> QuantizationScheme:
    return SCHEMES[name]


_STORED = {"quint8": _C.uint8, "qint8": _C.int8, "qint32": _C.int32}
# The other way.
DTYPES = {stored: vars(_C)["_unsupported_dtypes"][name] for name, stored in _STORED.items()}


def storage_dtype(function: str, dtype: object) -> _C.dtype:
    """The dtype that the integers of a quantized dtype are kept in."""
    stored = _STORED.get(str(dtype).rpartition(".")[2])
    if stored is None:
        raise RuntimeError(f"{function}: dtype must be quint8, qint8 or qint32, got {dtype}")
    return stored


def bounds(stored: _C.dtype) -> tuple[int, int]:
    """The smallest and the largest integer."""
    info = _C.iinfo(stored)
    return info.min, info.max
