"""Modules as functions of their parameters, as functorch had them before func.functional_call."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

from rushlight._C import Tensor
from rushlight.func import functional_call, stack_module_state
from rushlight.nn import Module

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "make_functional",
    "make_functional_with_buffers",
]


class FunctionalModuleWithBuffers(Module):
    """A module without values of its own: f(params, buffers, *args)."""

    def __init__(
        self, stateless_model: Module, param_names: Iterable[str], buffer_names: Iterable[str] = ()
    ) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names, self.buffer_names = tuple(param_names), tuple(buffer_names)

    @classmethod
    def _create_from(cls, model, disable_autograd_tracking=False):
        model = copy.deepcopy(model)
        params, buffers = dict(model.named_parameters()), dict(model.named_buffers())
        if disable_autograd_tracking:
            for param in params.values():
                param.requires_grad_(False)
        made = cls(copy.deepcopy(model).to("meta"), params, buffers)
        return made, tuple(params.values()), tuple(buffers.values())

    def forward(
        self, params: Iterable[Tensor], buffers: Iterable[Tensor], *args: Any, **kwargs: Any
    ) -> Any:
        values = {
            **dict(zip(self.param_names, params, strict=True)),
            **dict(zip(self.buffer_names, buffers, strict=True)),
        }
        return functional_call(self.stateless_model, values, args, kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """A module without values of its own: f(params, *args)."""

    def forward(self, params: Iterable[Tensor], *args: Any, **kwargs: Any) -> Any:
        return super().forward(params, (), *args, **kwargs)


def make_functional(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
    """(f, params): f(params, *args) is model(*args). The parameters are copies."""
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional: the model has buffers; use make_functional_with_buffers"
        )
    made, params, _ = FunctionalModule._create_from(model, disable_autograd_tracking)
    return made, params


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """(f, params, buffers): f(params, buffers, *args) is model(*args). All of them are copies."""
    return FunctionalModuleWithBuffers._create_from(model, disable_autograd_tracking)


def combine_state_for_ensemble(
    models: Sequence[Module],
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """(f, params, buffers) for models of one class, their parameters and buffers stacked."""
    if len(models) == 0:
        raise RuntimeError("combine_state_for_ensemble: expected at least one model")
    if any(model.training != models[0].training for model in models):
        raise RuntimeError("combine_state_for_ensemble: the models must have one training mode")
    if any(type(model) is not type(models[0]) for model in models):
        raise RuntimeError("combine_state_for_ensemble: the models must be of one class")
    made, _, _ = make_functional_with_buffers(models[0])
    params, buffers = stack_module_state(list(models))
    stacked = tuple(params[name].detach() for name in made.param_names)
    return made, stacked, tuple(buffers[name] for name in made.buffer_names)
