"""What modules hold, put where their Nodes are."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from rushlight import nn
from rushlight._names.missing import names_missing_from
from rushlight.fx.graph_module import GraphModule
from rushlight.nn import Module

__all__ = ["default_matching", "extract_attrs_for_lowering", "lift_lowering_attrs_to_nodes"]


def default_matching(name: str, target_version: int) -> str:
    """The attribute's own name."""
    return name


# {class: (version, attributes, how they are called)}
module_fetch_book: dict[type, tuple[int, list[str], Callable[[str, int], str]]] = {
    nn.Linear: (1, ["weight", "bias"], default_matching),
    nn.Conv2d: (
        1,
        ["weight", "bias", "kernel_size", "stride", "padding", "dilation", "groups",
         "padding_mode"],
        default_matching,
    ),
    nn.BatchNorm2d: (2, ["weight", "bias", "running_mean", "running_var", "eps"], default_matching),
    nn.AdaptiveAvgPool2d: (1, [], default_matching),
    nn.MaxPool2d: (
        1,
        ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"],
        default_matching,
    ),
    nn.ReLU: (1, ["inplace"], default_matching),
}  # fmt: skip


def extract_attrs_for_lowering(mod: Module) -> dict[str, Any]:
    """The attributes of a module that say what it computes, with the name of its class."""
    found: dict[str, Any] = {"name": f"{type(mod).__module__}.{type(mod).__qualname__}"}
    if type(mod) not in module_fetch_book:
        raise RuntimeError(f"{found['name']} has no list of attributes in module_fetch_book")
    version, names, matching = module_fetch_book[type(mod)]
    if version < mod._version:
        warnings.warn(
            f"{found['name']} has version {mod._version}, the list of its attributes is for "
            f"version {version}",
            stacklevel=2,
        )
    return found | {name: getattr(mod, matching(name, mod._version)) for name in names}


def lift_lowering_attrs_to_nodes(fx_module: GraphModule) -> None:
    """node.attrs_for_lowering for all calls of modules, those inside GraphModules too."""
    for node in fx_module.graph.nodes:
        if node.op != "call_module":
            continue
        child = fx_module.get_submodule(node.target)
        if isinstance(child, GraphModule):
            lift_lowering_attrs_to_nodes(child)
        else:
            node.attrs_for_lowering = extract_attrs_for_lowering(child)  # type: ignore[attr-defined]


__getattr__ = names_missing_from(__name__)
