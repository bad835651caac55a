"""Changes of shape as modules."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight._C import Tensor
from rushlight.nn.modules.module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Joins the dims from start_dim to end_dim.

    Arguments:
        start_dim: the first dim that is joined; 1 keeps the batch.
        end_dim: the last.

    Example:
        >>> nn.Flatten()(rl.zeros(5, 2, 3)).shape, nn.Flatten(start_dim=0)(rl.zeros(5, 2, 3)).shape
        (rushlight.Size([5, 6]), rushlight.Size([30]))
    """

    __constants__: tuple[str, ...] = ("start_dim", "end_dim")

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits one dim into several.

    Arguments:
        dim: the dim that is cut.
        unflattened_size: sizes whose product is its size; one may be -1.

    Example:
        >>> nn.Unflatten(1, (2, -1))(rl.zeros(5, 6)).shape
        rushlight.Size([5, 2, 3])
    """

    __constants__: tuple[str, ...] = ("dim", "unflattened_size")

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        if not isinstance(unflattened_size, tuple | list):
            raise TypeError(
                "Unflatten: unflattened_size must be a tuple of ints, got "
                f"{type(unflattened_size).__name__}"
            )
        for i, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    "Unflatten: unflattened_size must hold ints, element "
                    f"{i} is a {type(size).__name__}"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
