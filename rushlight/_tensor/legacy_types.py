"""FloatTensor and its relatives: PyTorch's first names for dtypes.

They are types only in name: `FloatTensor(2, 3)` makes a Tensor, and `isinstance(x, FloatTensor)`
asks for the dtype.
"""

from rushlight import _C

PREFIXES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Byte": "uint8",
    "Char": "int8",
    "Short": "int16",
    "Int": "int32",
    "Long": "int64",
    "Bool": "bool",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
    "UInt16": "uint16",
    "UInt32": "uint32",
    "UInt64": "uint64",
}
_DTYPES = {prefix: getattr(_C, name) for prefix, name in PREFIXES.items()}
_PREFIXES = {dtype: prefix for prefix, dtype in _DTYPES.items()}
# dtypes that came after such types: they have a name, and no class.
for _kind in ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e8m0fnu"):
    _name = f"float8_{_kind}"
    _PREFIXES[getattr(_C, _name)] = _name.capitalize()
_PREFIXES[_C.complex32] = "ComplexHalf"


class _TypedTensorMeta(type):
    def __call__(cls, *args, device=None):
        return _C._legacy_tensor(cls.__name__, cls.dtype, args, device)

    def __instancecheck__(cls, instance):
        return (
            isinstance(instance, _C.Tensor)
            and instance.dtype == cls.dtype
            and instance.device.type == "cpu"
        )


def _make(prefix):
    name = prefix + "Tensor"
    space = {"dtype": _DTYPES[prefix], "is_cuda": False, "__module__": "rushlight"}
    doc = f"""Tensors of {_DTYPES[prefix]}: calling the class makes one.

    Arguments:
        args: the sizes, or a list of values.
        device: where the tensor is.

    Example:
        >>> x = rl.{name}([1, 0])
        >>> x.dtype, isinstance(x, rl.{name})
        ({_DTYPES[prefix]}, True)
    """
    return _TypedTensorMeta(name, (), {**space, "__doc__": doc})


TYPES = {prefix + "Tensor": _make(prefix) for prefix in PREFIXES}


printed_package = "rushlight"  # or "torch", see as_torch


def typename_of(dtype, device):
    place = "" if device.type in ("cpu", "meta") else device.type + "."
    return f"{printed_package}.{place}{_PREFIXES[dtype]}Tensor"


def dtype_of_typename(name):
    """The dtype that "rushlight.FloatTensor", FloatTensor or Tensor means."""
    if name is _C.Tensor:
        return _C.get_default_dtype()
    if isinstance(name, _TypedTensorMeta):
        return name.dtype
    last = name.rpartition(".")[2] if isinstance(name, str) else None
    if name in ("Tensor", "torch.Tensor", "rushlight.Tensor"):
        return _C.get_default_dtype()
    place = name.split(".")[1:-1] if isinstance(name, str) else []
    if last not in TYPES or (place and place != ["cuda"]):
        raise ValueError(f"type: invalid type {name!r}; pass a dtype such as rushlight.float32")
    return TYPES[last].dtype
