"""Names for the types of arguments, for annotations."""

import os
from builtins import bool as _bool
from builtins import float as _float
from builtins import int as _int
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Union

from rushlight._C import Generator as Generator
from rushlight._C import Size as Size
from rushlight._C import Tensor as Tensor
from rushlight._C import device as _device_type
from rushlight._C import dtype as _dtype_type
from rushlight._C import layout as _layout_type

if TYPE_CHECKING:
    from typing_extensions import Self as Self
else:
    import typing as _typing

    Self = getattr(_typing, "Self", Any)  # Python 3.10 does not have it

__all__ = ["Device", "FileLike", "Number", "Storage"]

_dtype = _dtype_type
_device = _device_type
_layout = _layout_type
_size = Union[Size, list[_int], tuple[_int, ...]]  # noqa: UP007 -- tuples of types are taken too
_symsize = _size
_TensorOrTensors = Union[Tensor, Sequence[Tensor]]  # noqa: UP007
_TensorOrOptionalTensors = Union[Tensor, Sequence[Any]]  # noqa: UP007
Number = Union[_int, _float, _bool]  # noqa: UP007
_Number = (_int, _float, _bool)
IntLikeType = _int
FloatLikeType = _float
BoolLikeType = _bool
Device = Union[_device_type, str, _int, None]  # noqa: UP007
FileLike = Union[str, os.PathLike]  # noqa: UP007
Storage = Any
_F = TypeVar("_F", bound=Callable[..., Any])  # what a decorator takes and gives back
