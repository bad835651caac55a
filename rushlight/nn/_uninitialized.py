"""Parameters and buffers whose shape the first input decides.

They are loaded only when asked for: a class with a __torch_function__ of its own makes the bindings
look at the class of every argument of every operation from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, SupportsIndex

from rushlight import _C
from rushlight._C import Tensor
from rushlight.nn.parameter import Parameter
from rushlight.types import Device, Self, _dtype

# What may be asked of a tensor without a shape.
_ALLOWED = frozenset(
    """__hash__ size copy_ is_floating_point is_complex half float double bfloat16 char short int
    long cuda cpu to requires_grad_ type _has_compatible_shallow_copy_type""".split()
)


class UninitializedTensorMixin:
    """A tensor without a shape; ``materialize`` gives it one, and its final class.

    Example:
        >>> weight = nn.LazyLinear(3).weight
        >>> isinstance(weight, nn.parameter.UninitializedTensorMixin)
        True
        >>> weight.materialize((3, 2))
        >>> weight.shape
        rushlight.Size([3, 2])
    """

    _is_uninitialized = True
    if TYPE_CHECKING:  # what the tensor classes beside it bring
        cls_to_become: ClassVar[type[Tensor]]
        data: Tensor
        requires_grad: bool

    def materialize(
        self, shape: Sequence[int], device: Device = None, dtype: _dtype | None = None
    ) -> None:
        """Makes the tensor an ordinary one of this shape, with memory that holds anything."""
        device = self.data.device if device is None else device
        dtype = self.data.dtype if dtype is None else dtype
        self.data = _C.empty(shape, device=device, dtype=dtype)
        self.__class__ = self.cls_to_become  # type: ignore[assignment]

    @property
    def shape(self) -> NoReturn:
        raise RuntimeError(
            "an uninitialized parameter or buffer has no shape yet; run a forward pass, or call "
            "materialize(shape), before its shape is needed (load_state_dict into a module that "
            "is not lazy needs it too)"
        )

    def share_memory_(self) -> NoReturn:
        raise RuntimeError(
            "share_memory_: an uninitialized parameter or buffer has no memory to share; run a "
            "forward pass first"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        args = (type(self), self.requires_grad, self.data.device, self.data.dtype)
        return _rebuild_uninitialized, args

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in _ALLOWED or type(func).__name__ == "method-wrapper" or name == "__get__":
            return _C._disabled_torch_function_impl(func, types, args, kwargs or {})
        raise ValueError(
            f"{name or func}: this parameter or buffer is not initialized. Lazy modules learn "
            "their shapes from the first input: run a forward pass before other use"
        )


def _rebuild_uninitialized(cls, requires_grad, device, dtype):
    return cls(requires_grad, device, dtype)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A Parameter whose shape is not known yet.

    Arguments:
        requires_grad: whether it is trained.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> p = nn.UninitializedParameter(dtype=rl.float64)
        >>> p.materialize((2, 3)); p.shape
        rushlight.Size([2, 3])
    """

    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: Device = None, dtype: _dtype | None = None
    ) -> Self:
        data = _C.empty(0, device=device, dtype=dtype)
        return Tensor._make_subclass(cls, data, requires_grad)

    def __deepcopy__(self, memo: Any) -> Self:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        return memo[id(self)]


class LearntBuffer(Tensor):
    """What an UninitializedBuffer becomes: a tensor; an object cannot change to Tensor itself."""

    __torch_function__ = _C._disabled_torch_function_impl


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape is not known yet.

    Arguments:
        requires_grad: whether it needs a gradient.
        device, dtype: where the parameters lie, and their dtype.
        persistent: whether state_dict() holds it.

    Example:
        >>> b = nn.UninitializedBuffer(dtype=rl.float64)
        >>> b.materialize((2,)); b.shape
        rushlight.Size([2])
    """

    cls_to_become = LearntBuffer
    if TYPE_CHECKING:
        persistent: bool

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Device = None,
        dtype: _dtype | None = None,
        persistent: bool = True,
    ) -> Self:
        data = _C.empty(0, device=device, dtype=dtype)
        out: Any = Tensor._make_subclass(cls, data, requires_grad)
        out.persistent = persistent
        out._is_buffer = True
        return out

    def __deepcopy__(self, memo: Any) -> Self:
        if id(self) not in memo:
            memo[id(self)] = type(self)(
                self.requires_grad, self.data.device, self.data.dtype, self.persistent
            )
        return memo[id(self)]


for _class in (UninitializedTensorMixin, UninitializedParameter, UninitializedBuffer):
    _class.__module__ = "rushlight.nn.parameter"  # where PyTorch has them, for pickled modules
