"""What kind of tensor it is: attributes and questions, its old type, and those of PyTorch's that
are absent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight._C import memory_format as _memory_format
from rushlight._names.absent import METHODS, explained
from rushlight._names.missing import COMPATIBILITY_PAGE
from rushlight._tensor import method
from rushlight._tensor.legacy_types import dtype_of_typename, typename_of
from rushlight.types import FileLike, _dtype

if TYPE_CHECKING:
    from rushlight.utils._images import Picture


def _type(
    self: Tensor, dtype: _dtype | type | str | None = None, non_blocking: bool = False
) -> str | Tensor:
    """The legacy name of the tensor's type, or the tensor converted to a dtype.

    Arguments:
        dtype: a dtype, or a legacy type or its name; None asks for the name.
        non_blocking: accepted.

    Example:
        >>> x = rl.ones(2)
        >>> x.type()
        'rushlight.FloatTensor'
        >>> x.type(rl.int64), x.type("rushlight.DoubleTensor").dtype
        (tensor([1, 1]), rushlight.float64)
    """
    if dtype is None:
        return typename_of(self.dtype, self.device)
    if not isinstance(dtype, _C.dtype):
        dtype = dtype_of_typename(dtype)
    return self if dtype == self.dtype else self.to(dtype)


Tensor.type = _type  # under its own name it would hide the builtin


@method
def show(self: Tensor, path: FileLike | None = None) -> Picture:
    """The tensor as a picture: of [height, width], [channels, height, width] or a batch.

    Notebooks draw what is returned, terminals print it, and with a path it is written as PNG.
    Values between 0 and 1 and bytes are taken as they are, others from the smallest to the
    largest; NaN and infinity are red. Needs NumPy.

    Arguments:
        path: where to write the picture.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "eye.png")
        >>> picture = rl.eye(8).show(path)
        >>> os.path.exists(path)
        True
    """
    from rushlight._tensor.pictures import picture_of

    return picture_of(self, path)


@method
def _repr_html_(self: Tensor) -> str:
    """The tensor as notebooks show it: shape, range, histogram, how many NaN."""
    from rushlight._tensor.pictures import tensor_html

    return tensor_html(self)


def _always(value, doc):
    return property(lambda self: value, doc=doc)


for _name in "is_ipu is_maia is_mps is_mtia is_sparse_csr is_vulkan is_xla is_xpu".split():
    setattr(Tensor, _name, _always(False, "False: there are no such tensors."))


def _make_wrapper_subclass(
    cls: type[Tensor], size: Sequence[int], *args: Any, **kwargs: Any
) -> Tensor:
    """An object of cls without memory; see rushlight._library.dispatch."""
    from rushlight._library.dispatch import make_wrapper_subclass

    return make_wrapper_subclass(cls, size, *args, **kwargs)


Tensor._make_wrapper_subclass = staticmethod(_make_wrapper_subclass)
Tensor._backward_hooks = _always(None, "Hooks are kept by the core.")
Tensor.__rdiv__ = Tensor.__rtruediv__  # Python 2's name, which PyTorch has kept


@method
def is_distributed(self: Tensor) -> bool:
    """False: a tensor lies in one process.

    Example:
        >>> rl.ones(2).is_distributed()
        False
    """
    return False


@method
def is_same_size(self: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape.

    Arguments:
        other: another tensor.

    Example:
        >>> rl.ones(2).is_same_size(rl.ones(2, 1))
        False
    """
    return self.shape == other.shape


@method
def dim_order(
    self: Tensor, ambiguity_check: bool | Sequence[_memory_format] = False
) -> tuple[int, ...]:
    """The dimensions from the outermost to the innermost in memory.

    Arguments:
        ambiguity_check: accepted; strides that allow several orders give the first of them.

    Example:
        >>> rl.ones(2, 3, 4).transpose(0, 1).dim_order(ambiguity_check=False)
        (1, 0, 2)
    """
    strides = self.stride()
    return tuple(sorted(range(self.ndim), key=lambda d: -strides[d]))


@property
def _grad_dtype(self: Tensor) -> _dtype:
    """The dtype that .grad has: the tensor's own."""
    return self.dtype


@_grad_dtype.setter
def _grad_dtype(self, dtype):
    if dtype is not None and dtype != self.dtype:
        raise NotImplementedError(f"grad_dtype: a gradient has the dtype of its tensor, "
                                  f"{self.dtype}; convert .grad with .to({dtype})")  # fmt: skip


Tensor.grad_dtype = _grad_dtype


def _listed(self):
    return sorted({*dir(type(self)), *getattr(self, "__dict__", {})})


_listed.__name__ = "__dir__"
Tensor.__dir__ = _listed  # under its own name it would be the module's


@method
def __array_wrap__(self, array, context=None, return_scalar=False):
    """What NumPy's functions call on their result."""
    return _C.from_numpy(array) if array.ndim or not return_scalar else _C.as_tensor(array)


@method
def __array_namespace__(self, *, api_version=None):
    """The functions of the Array API standard, for libraries that take any array."""
    from rushlight.array_api import namespace_of

    return namespace_of(self, api_version=api_version)


class _AbsentMethod:
    """Raises an AttributeError that tells more than Python's own, so hasattr stays false."""

    def __init__(self, name, reason):
        self.name, self.reason = name, reason

    def __get__(self, instance, owner):
        raise AttributeError(
            f"'Tensor' object has no attribute '{self.name}': Rushlight does not have it "
            f"({explained(self.reason)}). {COMPATIBILITY_PAGE} lists what is there",
            name=self.name,
            obj=None,
        )


for _reason, _names in METHODS.items():
    for _name in _names.split():
        if not hasattr(Tensor, _name):
            setattr(Tensor, _name, _AbsentMethod(_name, _reason))
