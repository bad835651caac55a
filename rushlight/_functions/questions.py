"""Small questions about objects that PyTorch answers with functions of the package."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from rushlight import _C
from rushlight._C import Tensor, UntypedStorage
from rushlight.storage import TypedStorage
from rushlight.types import Device

if TYPE_CHECKING:
    from typing_extensions import TypeIs

__all__ = [
    "get_device",
    "get_device_module",
    "is_complex",
    "is_distributed",
    "is_floating_point",
    "is_inference",
    "is_same_size",
    "is_signed",
    "is_storage",
    "is_tensor",
    "numel",
    "typename",
]


def is_tensor(obj: Any, /) -> TypeIs[Tensor]:
    """True for tensors, of whatever subclass.

    Arguments:
        obj: any object.

    Example:
        >>> rl.is_tensor(rl.zeros(1)), rl.is_tensor([1.0])
        (True, False)
    """
    return isinstance(obj, Tensor)


def is_storage(obj: Any, /) -> bool:
    """True for the memory objects of tensors.

    Arguments:
        obj: any object.

    Example:
        >>> rl.is_storage(rl.zeros(1).untyped_storage()), rl.is_storage(rl.zeros(1))
        (True, False)
    """
    return isinstance(obj, UntypedStorage | TypedStorage)


def is_floating_point(input: Tensor) -> bool:
    """True when the tensor holds real floating-point numbers.

    Arguments:
        input: a tensor.

    Example:
        >>> rl.is_floating_point(rl.zeros(1)), rl.is_floating_point(rl.tensor([1]))
        (True, False)
    """
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    """True when the tensor holds complex numbers.

    Arguments:
        input: a tensor.

    Example:
        >>> rl.is_complex(rl.tensor([1j])), rl.is_complex(rl.zeros(1))
        (True, False)
    """
    return input.is_complex()


def is_signed(input: Tensor) -> bool:
    """True when the dtype has negative numbers.

    Arguments:
        input: a tensor.

    Example:
        >>> rl.is_signed(rl.tensor([1])), rl.is_signed(rl.tensor([1], dtype=rl.uint8))
        (True, False)
    """
    return input.is_signed()


def numel(input: Tensor) -> int:
    """The number of elements.

    Arguments:
        input: a tensor.

    Example:
        >>> rl.numel(rl.zeros(2, 3))
        6
    """
    return input.numel()


def typename(obj: Any, /) -> str:
    """The name of an object's type, with its module; the legacy name for tensors.

    Arguments:
        obj: any object.

    Example:
        >>> rl.typename(rl.zeros(1)), rl.typename(3)
        ('rushlight.FloatTensor', 'int')
    """
    if isinstance(obj, Tensor):
        return obj.type()
    cls = obj if isinstance(obj, type) or hasattr(obj, "__qualname__") else type(obj)
    module = getattr(cls, "__module__", None)
    name = getattr(cls, "__qualname__", str(cls))
    return name if module in (None, "builtins") else f"{module}.{name}"


def get_device(input: Tensor) -> int:
    """The number of the tensor's GPU; -1 for the CPU.

    Arguments:
        input: a tensor.

    Example:
        >>> rl.get_device(rl.zeros(1))
        -1
    """
    return input.get_device()


def get_device_module(device: Device = None) -> ModuleType:
    """The module of a kind of device: rushlight.cuda for "cuda".

    Arguments:
        device: a device or its name; None is the accelerator that is there.

    Example:
        >>> rl.get_device_module(device="cuda").__name__
        'rushlight.cuda'
    """
    import importlib

    kind = "cuda" if device is None else _C.device(device).type
    if device is None:
        from rushlight import cuda

        kind = "cuda" if cuda.is_available() else "cpu"
    return importlib.import_module(f"rushlight.{kind}")


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape.

    Arguments:
        input, other: two tensors.

    Example:
        >>> rl.is_same_size(rl.zeros(2, 3), rl.ones(2, 3))
        True
    """
    if not isinstance(other, Tensor):
        raise TypeError(f"is_same_size: other must be a tensor, got {type(other).__name__}")
    return input.shape == other.shape


def is_distributed(input: Tensor) -> bool:
    """False: a tensor lies in one process.

    Arguments:
        input: a tensor.

    Example:
        >>> rl.is_distributed(rl.ones(2))
        False
    """
    return False


def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made in inference mode.

    Arguments:
        input: a tensor.

    Example:
        >>> with rl.inference_mode():
        ...     x = rl.zeros(1)
        >>> rl.is_inference(x)
        True
    """
    return input.is_inference()
