"""Tensors that modules own: Parameter and Buffer, and those whose shape is not known yet."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

from rushlight import _C
from rushlight._C import Tensor
from rushlight.types import Self

if TYPE_CHECKING:  # loaded when first used
    from rushlight.nn._uninitialized import UninitializedBuffer as UninitializedBuffer
    from rushlight.nn._uninitialized import UninitializedParameter as UninitializedParameter
    from rushlight.nn._uninitialized import UninitializedTensorMixin as UninitializedTensorMixin

_T = TypeVar("_T")

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "is_lazy"]


class _ParameterMeta(_C._TensorMeta):  # type: ignore[misc, valid-type]
    def __instancecheck__(cls, instance: Any) -> bool:
        # A tensor of a user's own class stays of that class when it becomes a parameter.
        if type.__instancecheck__(cls, instance):
            return True
        if cls is not Parameter or type(instance) is Tensor:
            return False
        return isinstance(instance, Tensor) and getattr(instance, "_is_param", False)


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that is a part of a module: trained, moved and saved with it.

    Assigned to an attribute of a module, it is found by parameters() and state_dict(). It needs a
    gradient unless requires_grad is False.

    Arguments:
        data: the tensor.
        requires_grad: whether it is trained.

    Example:
        >>> class Scale(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.factor = nn.Parameter(rl.ones(1))
        ...         self.fixed = nn.Parameter(rl.zeros(1), requires_grad=False)
        >>> [(name, p.requires_grad) for name, p in Scale().named_parameters()]
        [('factor', True), ('fixed', False)]
    """

    _is_param = True  # printing and isinstance ask for it
    # Results of operations are plain tensors.
    __torch_function__ = _C._disabled_torch_function_impl

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Self:
        if data is None:
            data = _C.empty(0)
        kind = type(data)
        if kind is Tensor or kind is Parameter or kind is cls:
            return Tensor._make_subclass(cls, data, requires_grad)
        if not isinstance(data, Tensor):
            raise TypeError(f"Parameter: data must be a tensor, got {kind.__name__}")
        own: Any = data.detach().requires_grad_(requires_grad)
        if type(own) is not kind:
            raise RuntimeError(
                f"Parameter: detach() of a {kind.__name__} gave a {type(own).__name__}; a tensor "
                "class whose detach() changes the class cannot become a parameter"
            )
        made: Any = own  # of the class of the data, which need not be ours
        made._is_param = True
        return made

    def __deepcopy__(self, memo: Any) -> Self:
        if id(self) in memo:
            return memo[id(self)]
        out = type(self)(
            self.data.clone(memory_format=_C.preserve_format), requires_grad=self.requires_grad
        )
        memo[id(self)] = out
        return out

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        state = getattr(self, "__dict__", None) or None
        return rebuild_parameter, (type(self), self.data, self.requires_grad, state)


# Sent to another process, a parameter goes through shared memory.
_reductions = sys.modules.get("rushlight.multiprocessing.reductions")
if _reductions is not None:
    _reductions.ForkingPickler.register(Parameter, _reductions.reduce_tensor)


def rebuild_parameter(
    cls: Callable[[Any, bool], _T], data: Any, requires_grad: bool, state: Any = None
) -> _T:
    """What a pickled parameter calls when it comes back."""
    out = cls(data, requires_grad)
    for name, value in (state or {}).items():
        setattr(out, name, value)
    return out


def _rebuild_torch_parameter(data, requires_grad, backward_hooks, state=None):
    """The same, with the arguments that PyTorch's files hold."""
    return rebuild_parameter(Parameter, data, requires_grad, state)


class _BufferMeta(_C._TensorMeta):  # type: ignore[misc, valid-type]
    def __instancecheck__(cls, instance: Any) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Buffer and isinstance(instance, Tensor) and hasattr(instance, "_is_buffer")


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that a Module lists among its buffers when it is assigned to an attribute.

    Arguments:
        data: the tensor.
        persistent: whether state_dict() holds it.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> layer.seen = nn.Buffer(rl.zeros(1), persistent=False)
        >>> [name for name, _ in layer.named_buffers()], "seen" in layer.state_dict()
        (['seen'], False)
    """

    __torch_function__ = _C._disabled_torch_function_impl

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Self:
        if data is None:
            data = _C.empty(0)
        out = data.detach().requires_grad_(data.requires_grad)
        made: Any = out
        made.persistent = persistent
        made._is_buffer = True
        return made


def is_lazy(tensor: Tensor) -> bool:
    """Is this a parameter or buffer whose shape is not known yet?"""
    return getattr(type(tensor), "_is_uninitialized", False)


# Their class takes over every operation, which costs all operations of the process a little.
_LAZY = ("UninitializedBuffer", "UninitializedParameter", "UninitializedTensorMixin")


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rushlight.nn import _uninitialized

    for each in _LAZY:
        globals()[each] = getattr(_uninitialized, each)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
