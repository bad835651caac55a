"""Custom Functions: a forward in plain Python with a gradient of one's own."""

from __future__ import annotations

import functools
import inspect
import threading
import warnings
from collections.abc import Callable
from typing import Any, NoReturn, cast

from rushlight import _C
from rushlight._C import Tensor
from rushlight.types import _F

__all__ = [
    "BackwardCFunction",
    "Function",
    "FunctionCtx",
    "FunctionMeta",
    "once_differentiable",
]


class FunctionCtx:
    """What forward() is given to leave things for backward(); any attribute may be set on it."""

    def save_for_backward(self, *tensors: Tensor) -> None:
        """Keeps tensors, inputs and outputs among them, for ``ctx.saved_tensors`` in backward.

        Call it at most once. Kept this way, a tensor is checked for in-place writes, makes no
        reference cycle, and goes through saved_tensors_hooks.
        """
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor) -> None:
        """Keeps tensors for ``ctx.saved_tensors`` in jvp."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError("save_for_forward: saves only tensors, got "
                                f"{type(tensor).__name__}; keep other objects as attributes of "
                                "ctx")  # fmt: skip
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Says which arguments forward() changed in place; all of them must be returned."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Says which outputs have no gradient; backward still gets zeros for them."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """With False, gradients that do not exist come as None instead of as zeros."""
        self.materialize_grads = value

    def mark_shared_storage(self, *pairs: Any) -> None:
        warnings.warn("mark_shared_storage: outputs that share memory with inputs are found "
                      "without it; remove the call", FutureWarning, stacklevel=2)  # fmt: skip


_ContextMethodMixin = FunctionCtx  # PyTorch's old name


class _HookMixin:
    pass


class BackwardCFunction(_C._FunctionBase, FunctionCtx, _HookMixin):  # type: ignore[misc, valid-type]
    """The ctx of a Function, and at the same time the node of its call in the graph."""

    def apply(self, *args: Any) -> Any:
        """Runs the user's backward (or vjp); the engine calls it."""
        cls = self._forward_cls
        own_vjp = cls.vjp is not Function.vjp
        if own_vjp and cls.backward is not Function.backward:
            raise RuntimeError(
                f"{cls.__name__}: both backward and vjp are implemented; they are two names of the "
                "same thing, implement one"
            )
        return (cls.vjp if own_vjp else cls.backward)(self, *args)

    def apply_jvp(self, *args: Any) -> Any:
        """Runs the user's jvp."""
        return self._forward_cls.jvp(self, *args)


class FunctionMeta(type):
    """Gives each Function the class of its nodes, named after it."""

    def __init__(cls, name: str, bases: Any, attrs: Any) -> None:
        cls._backward_cls = type(name + "Backward", (BackwardCFunction,), {"_forward_cls": cls})
        own = getattr(cls, "setup_context", None)
        base = globals().get("Function")
        cls._uses_setup_context = base is not None and own is not base.setup_context
        super().__init__(name, bases, attrs)


def _any_number(function: Callable[..., Any]) -> Callable[..., Any]:
    """To type checkers: a subclass may write the method with as many arguments as it needs."""
    return function


# thread -> what apply() calls there with the class and its arguments: exports see forward alone.
applied_otherwise: dict[int, Callable[[type[Function], tuple[Any, ...]], Any]] = {}


class Function(metaclass=FunctionMeta):
    """Base class of operations with a gradient of their own.

    A subclass writes static methods: ``forward(ctx, *args)``, or ``forward(*args)`` with
    ``setup_context(ctx, inputs, output)``, and ``backward(ctx, *grad_outputs)``, which returns one
    gradient for each argument of forward, None for those that are no tensors. ``jvp`` is the same
    for forward mode. It is called as ``MyFunction.apply(*args)``.

    forward(ctx, *args) computes, ctx.save_for_backward(...) keeps tensors, backward(ctx, *grads)
    returns a gradient per argument (None where there is none). Call it by apply.

    Arguments:
        args, kwargs: not to be used: it is never made.

    Example:
        >>> class Double(rl.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return x * 2
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return grad * 2
        >>> x = rl.ones(1, requires_grad=True)
        >>> Double.apply(x).backward(); x.grad
        tensor([2.])
    """

    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(f"{type(self).__name__} should not be instantiated: its methods are static, "
                      "call apply() on the class", DeprecationWarning, stacklevel=2)  # fmt: skip

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            f"{type(self).__name__}: Functions with a non-static forward are not supported; make "
            f"forward and backward static methods and call {type(self).__name__}.apply(...)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Computes the results; nothing is recorded inside."""
        raise NotImplementedError("autograd.Function: the subclass must implement forward")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Fills ctx after a forward() that does not take it."""
        raise NotImplementedError("autograd.Function: setup_context is not implemented")

    @staticmethod
    @_any_number
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """From the gradients of the outputs to those of the arguments."""
        raise NotImplementedError(
            "autograd.Function: the subclass must implement backward (or vjp) to be differentiated "
            "in backward mode"
        )

    # PyTorch's other name for backward; a subclass implements one of them.
    vjp = backward

    @staticmethod
    @_any_number
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """From the tangents of the arguments to those of the outputs."""
        raise NotImplementedError(
            "autograd.Function: the subclass must implement jvp to be used in forward mode"
        )

    @staticmethod
    @_any_number
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """What vmap() runs in place of forward: returns the output and its batch dimensions."""
        raise NotImplementedError(
            "autograd.Function: to be used under vmap, implement the vmap static method or set "
            "generate_vmap_rule = True"
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Runs forward() and records the call."""
        if cls._uses_setup_context:
            args = _positional(cls.forward, args, kwargs)
        elif kwargs:
            args = _positional(cls.forward, (None, *args), kwargs)[1:]  # None stands for ctx
        run = applied_otherwise.get(threading.get_ident()) if applied_otherwise else None
        return _C._apply_function(cls, args) if run is None else run(cls, args)


def _positional(function, args, kwargs):
    """All arguments by position, with defaults filled in, as setup_context sees them."""
    signature = inspect.signature(function)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


class _Undifferentiable(Function):
    """Passes tensors through, and raises when somebody differentiates them."""

    @staticmethod
    def forward(ctx: Any, what: Any, *tensors: Tensor) -> Any:
        ctx.what = what
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(
            f"{ctx.what}: marked with @once_differentiable, so its gradient cannot be "
            "differentiated again"
        )


def once_differentiable(fn: _F) -> _F:
    """Decorates a backward that is not written with differentiable operations.

    It runs without recording, and differentiating its results raises.
    """

    @functools.wraps(fn)
    def wrapper(ctx, *args):
        from rushlight.autograd.grad_mode import no_grad

        with no_grad():
            outputs = fn(ctx, *args)
        if not _C.is_grad_enabled():
            return outputs
        # As PyTorch: refused only where the incoming gradients are themselves recorded.
        if not any(isinstance(t, Tensor) and t.requires_grad for t in args):
            return outputs
        single = not isinstance(outputs, tuple)
        items = [outputs] if single else list(outputs)
        at = [i for i, t in enumerate(items) if (isinstance(t, Tensor) and t.is_floating_point())
              or (isinstance(t, Tensor) and t.is_complex())]  # fmt: skip
        leaves = [items[i].detach().requires_grad_() for i in at]
        name = getattr(ctx, "_forward_cls", type(ctx)).__name__
        if leaves:
            guarded = _Undifferentiable.apply(name, *leaves)
            for i, t in zip(at, guarded, strict=True):
                items[i] = t
        return items[0] if single else tuple(items)

    return cast(_F, wrapper)


class InplaceFunction(Function):
    """A Function that may be told to work in place; PyTorch's old base class."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace
