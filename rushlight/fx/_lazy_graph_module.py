"""GraphModules, under PyTorch's name for those that are compiled when first called."""

from __future__ import annotations

from typing import Any

from rushlight._names.missing import names_missing_from
from rushlight.fx.graph_module import GraphModule


def _make_graph_module(*args: Any, graph_module_cls: Any = None, **kwargs: Any) -> GraphModule:
    """A GraphModule; code is written at once, which takes milliseconds."""
    return (graph_module_cls or GraphModule)(*args, **kwargs)


__getattr__ = names_missing_from(__name__)
