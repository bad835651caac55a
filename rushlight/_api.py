"""Small questions about objects that PyTorch answers with functions of the package."""

from rushlight import _C
from rushlight._C import Tensor, UntypedStorage
from rushlight.storage import TypedStorage


def is_tensor(obj, /):
    """True for tensors, of whatever subclass."""
    return isinstance(obj, Tensor)


def is_storage(obj, /):
    """True for the memory objects of tensors."""
    return isinstance(obj, UntypedStorage | TypedStorage)


def is_floating_point(input):
    """True when the tensor holds real floating-point numbers."""
    return input.is_floating_point()


def is_complex(input):
    """True when the tensor holds complex numbers."""
    return input.is_complex()


def is_signed(input):
    """True when the dtype has negative numbers."""
    return input.is_signed()


def numel(input):
    """The number of elements."""
    return input.numel()


def typename(obj, /):
    """The name of an object's type, with its module; the legacy name for tensors."""
    if isinstance(obj, Tensor):
        return obj.type()
    cls = obj if isinstance(obj, type) or hasattr(obj, "__qualname__") else type(obj)
    module = getattr(cls, "__module__", None)
    name = getattr(cls, "__qualname__", str(cls))
    return name if module in (None, "builtins") else f"{module}.{name}"


def set_default_tensor_type(t, /):
    """The old form of set_default_dtype."""
    from rushlight._legacy import dtype_of_typename

    _C.set_default_dtype(dtype_of_typename(t))


_matmul_precision = "highest"


def set_float32_matmul_precision(precision):
    """How exact float32 matrix products must be: 'highest', 'high' or 'medium'.

    On the CPU all of them compute in full float32; on GPUs all but 'highest' use TF32.
    """
    global _matmul_precision
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError("set_float32_matmul_precision: expected 'highest', 'high' or "
                           f"'medium', got {precision!r}")  # fmt: skip
    _matmul_precision = precision
    _C._cuda.set_matmul_tf32(precision != "highest")


def get_float32_matmul_precision():
    """What set_float32_matmul_precision was told."""
    return _matmul_precision
