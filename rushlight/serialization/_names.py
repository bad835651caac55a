"""What PyTorch's files call things: storage classes for dtypes, and `torch` for this package."""

import sys

from rushlight import _C
from rushlight._quantized.schemes import DTYPES as _QUANTIZED

# The class that stands for "a storage of this dtype" in a file. Newer dtypes have none: their
# tensors lie over an UntypedStorage and name the dtype themselves.
STORAGE_OF_DTYPE = {
    _C.float32: "FloatStorage",
    _C.float64: "DoubleStorage",
    _C.float16: "HalfStorage",
    _C.bfloat16: "BFloat16Storage",
    _C.uint8: "ByteStorage",
    _C.int8: "CharStorage",
    _C.int16: "ShortStorage",
    _C.int32: "IntStorage",
    _C.int64: "LongStorage",
    _C.bool: "BoolStorage",
    _C.complex64: "ComplexFloatStorage",
    _C.complex128: "ComplexDoubleStorage",
}
DTYPE_OF_STORAGE = {name: dtype for dtype, name in STORAGE_OF_DTYPE.items()}
# Those of quantized tensors, by what their integers are kept in.
STORAGE_OF_INTEGERS = {
    _C.uint8: "QUInt8Storage",
    _C.int8: "QInt8Storage",
    _C.int32: "QInt32Storage",
}
DTYPE_OF_STORAGE.update({name: dtype for dtype, name in STORAGE_OF_INTEGERS.items()})

DTYPES = {
    str(value).rpartition(".")[2]: value
    for value in vars(_C).values()
    if isinstance(value, _C.dtype)
}
QUANTIZED_DTYPES = {str(value).rpartition(".")[2]: value for value in _QUANTIZED.values()}
LAYOUTS = {
    str(value).rpartition(".")[2]: value
    for value in vars(_C).values()
    if isinstance(value, _C.layout)
}
MEMORY_FORMATS = {
    str(value).rpartition(".")[2]: value
    for value in vars(_C).values()
    if isinstance(value, _C.memory_format)
}


def last_part(value):
    """The bare name of a dtype, layout or memory format: float32."""
    return str(value).rpartition(".")[2]


def _renamed(module, old, new):
    if module == old or module.startswith(old + "."):
        return new + module[len(old) :]
    return module


# Where PyTorch has what lies elsewhere here: our files of functions, its builtin ones.
_FUNCTIONS = "rushlight.nn.functional"
_BUILTIN_AT_HOME = {
    "torch._C._nn": _FUNCTIONS,
    "torch._C._VariableFunctions": "rushlight",
}


def module_in_file(module, name=""):
    """rushlight.nn.parameter is torch.nn.parameter in a file, so that PyTorch finds its own."""
    if module.startswith(_FUNCTIONS + "."):
        module = _FUNCTIONS
    elif module == "rushlight._C" and name:
        functions = sys.modules.get(_FUNCTIONS)
        module = _FUNCTIONS if hasattr(functions, name) else "rushlight"
    return _renamed(module, "rushlight", "torch")


def module_at_home(module):
    """The other way: the module of ours that answers to a name of PyTorch's."""
    return _BUILTIN_AT_HOME.get(module) or _renamed(module, "torch", "rushlight")


class StorageType:
    """What `torch.FloatStorage` in a file means: a storage of one dtype; no dtype means bytes."""

    def __init__(self, name):
        self.name = name
        self.dtype = DTYPE_OF_STORAGE.get(name)

    @property
    def itemsize(self):
        return 1 if self.dtype is None else self.dtype.itemsize

    def __repr__(self):
        return f"StorageType({self.name!r})"


STORAGE_TYPES = {f"torch.{name}": StorageType(name) for name in DTYPE_OF_STORAGE}
STORAGE_TYPES["torch.storage.UntypedStorage"] = StorageType("UntypedStorage")
STORAGE_TYPES["torch.UntypedStorage"] = STORAGE_TYPES["torch.storage.UntypedStorage"]
