"""Exchanging layers of a model for others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from rushlight import Tensor
from rushlight.nn import Linear, Module, Parameter


class StoredLinear(Module):
    """A Linear for inference, whose weight is kept in another form."""

    def __init__(self, sizes: tuple[int, ...], bias: Tensor | None, **buffers: Tensor) -> None:
        super().__init__()
        self.out_features, self.in_features = sizes
        for name, value in buffers.items():
            self.register_buffer(name, value)
        self.register_parameter("bias", cast("Parameter | None", bias))

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


def rows_of(layer: Any, input: Tensor) -> Tensor:
    """The input of a linear layer as a matrix."""
    if input.dim() == 0 or input.shape[-1] != layer.in_features:
        raise RuntimeError(
            f"{type(layer).__name__}: the last dim of the input must have {layer.in_features} "
            f"elements, as many as the weight has columns; got shape {tuple(input.shape)}"
        )
    return input.reshape(-1, layer.in_features)


def copied_bias(linear: Linear) -> Parameter | None:
    """The bias of a Linear as a parameter that is not trained."""
    if linear.bias is None:
        return None
    return Parameter(linear.bias.detach().clone(), requires_grad=False)


def exchange_linears(
    model: Module,
    make: Callable[[Linear], Module | None],
    filter_fn: Callable[[Module, str], bool] | None = None,
) -> Module:
    """The model with what `make` gives for each plain Linear that filter_fn(layer, name) does not
    refuse; None leaves it. A model that is such a layer itself is not changed but exchanged."""
    for name, layer in list(model.named_modules()):
        if type(layer) is not Linear or (filter_fn is not None and not filter_fn(layer, name)):
            continue
        made = make(layer)
        if made is None:
            continue
        if not name:
            return made
        parent, _, own = name.rpartition(".")
        setattr(model.get_submodule(parent), own, made)
    return model
