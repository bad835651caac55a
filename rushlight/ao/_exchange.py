"""Exchanging layers of a model for others."""

from __future__ import annotations

from collections.abc import Callable

from rushlight.nn import Linear, Module


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
