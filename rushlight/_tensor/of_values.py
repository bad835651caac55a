"""TensorOfValues: what sparse and nested tensors have in common.

Both are made of an ordinary tensor, their values, and of tensors that say where these belong.
To the core they have no memory (csrc/core/memoryless.h). Gradients flow through the values: such
a tensor requires grad where they do, and its gradient is theirs, at the same places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from rushlight._C import Tensor
from rushlight.types import Self

if TYPE_CHECKING:
    from rushlight.utils.hooks import RemovableHandle


def _of_values(name: str) -> Any:
    """A property that is that of the values."""
    return property(lambda self: getattr(self._vals, name), doc=f"The {name} of the values.")


class TensorOfValues(Tensor):
    """A tensor whose elements another tensor holds, and which is one node of no graph itself."""

    _vals: Tensor

    # What a kind of them says of itself.

    def _like(self, values: Tensor) -> Self:
        """A tensor with other values at the same places."""
        raise NotImplementedError

    def _values_at(self, op: str, given: Any) -> Tensor:
        """The values of another tensor at the places of this one."""
        raise NotImplementedError

    def _plain(self) -> Tensor:
        """Its elements as a tensor that the graph has."""
        raise NotImplementedError

    def _as_grad(self, values: Tensor) -> Self:
        """A gradient whose values are given."""
        return self._like(values)

    # The only element.

    def _one(self) -> Tensor:
        if self.numel() != 1:
            raise RuntimeError(
                f"item: only a tensor with one element converts to a number, this one has "
                f"shape {list(self.shape)}"
            )
        return self._plain().reshape(())

    def item(self) -> int | float | bool:
        """The number that a tensor of one element holds."""
        return self._one().item()

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise RuntimeError(f"bool: a tensor of shape {list(self.shape)} is neither true nor "
                               "false; use .any()")  # fmt: skip
        return bool(self._one())

    def __float__(self) -> float:
        return float(self._one())

    def __int__(self) -> int:
        return int(self._one())

    def __complex__(self) -> complex:
        return complex(self._one())

    def __index__(self) -> int:
        return self._one().__index__()

    # Memory: that of the values.

    def untyped_storage(self) -> NoReturn:
        """Raises: the values have one."""
        raise NotImplementedError(
            "untyped_storage: a sparse or nested tensor has no storage; its values() have one"
        )

    storage = untyped_storage

    def is_pinned(self, device: Any = None) -> bool:
        """Whether the values lie in pinned memory."""
        return self._vals.is_pinned(device)

    # Gradients: those of the values.

    is_leaf = _of_values("is_leaf")
    grad_fn = _of_values("grad_fn")
    retains_grad = _of_values("retains_grad")
    output_nr = _of_values("output_nr")
    _version = _of_values("_version")

    @property
    def requires_grad(self) -> bool:
        """Whether operations on the values are recorded."""
        return self._vals.requires_grad

    @requires_grad.setter
    def requires_grad(self, on: bool) -> None:
        self._vals.requires_grad = on

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Sets requires_grad; returns the tensor."""
        self._vals.requires_grad_(requires_grad)
        return self

    @property  # type: ignore[override]
    def grad(self) -> Self | None:
        """The gradient at the places of this tensor, or None."""
        found = self._vals.grad
        return None if found is None else self._as_grad(found)

    @grad.setter
    def grad(self, value: Any) -> None:
        self._vals.grad = None if value is None else self._values_at("grad", value)

    @grad.deleter
    def grad(self) -> None:
        self._vals.grad = None

    def retain_grad(self) -> None:
        """Keeps the gradient of a tensor that is no leaf."""
        self._vals.retain_grad()

    def register_hook(self, hook: Any) -> RemovableHandle:
        """Calls hook(grad) when the gradient is there; what it returns takes its place."""

        def of_values(grad):
            found = hook(self._like(grad))
            return None if found is None else self._values_at("register_hook", found)

        return self._vals.register_hook(of_values)

    def backward(self, gradient: Any = None, retain_graph: Any = None, create_graph: bool = False,
                 inputs: Any = None) -> None:  # fmt: skip
        """Adds to the gradients of the leaves that the values were computed from."""
        if gradient is None:
            raise RuntimeError("backward: a sparse or nested tensor needs a gradient of its shape")
        seed = self._values_at("backward", gradient)
        self._vals.backward(seed, retain_graph, create_graph, inputs)

    # Copies and texts.

    def _copied_values(self) -> Tensor:
        """The values and their gradient, copied for deepcopy."""
        if not self.is_leaf:
            raise RuntimeError(
                "deepcopy: only tensors created by the user (leaves of the graph) can be "
                "deep-copied; use tensor.detach().clone() for the others"
            )
        values = self._vals.detach().clone().requires_grad_(self.requires_grad)
        if self._vals.grad is not None:
            values.grad = self._vals.grad.detach().clone()
        return values

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec)

    __hash__ = Tensor.__hash__
