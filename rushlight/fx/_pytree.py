"""Containers taken apart by a known structure, for generated code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight._names.missing import names_missing_from
from rushlight.utils import _pytree as pytree

__all__ = ["register_pytree_flatten_spec", "tree_flatten_spec"]

# {class: flatten(container, spec) -> children}
SUPPORTED_NODES: dict[type, Callable[[Any, Any], list[Any]]] = {}
SUPPORTED_NODES_EXACT_MATCH: dict[type, Callable[[Any, Any], bool] | None] = {}


def register_pytree_flatten_spec(
    cls: type, flatten_fn_spec: Callable[[Any, Any], list[Any]],
    flatten_fn_exact_match_spec: Callable[[Any, Any], bool] | None = None,
) -> None:  # fmt: skip
    """How objects of a class are taken apart when their structure is known."""
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def _dict_children(container, spec):
    return [container[key] for key in spec.context]


def _list_children(container, spec):
    return [container[i] for i in range(spec.num_children)]


def _tuple_children(container, spec):
    return [container[i] for i in range(spec.num_children)]


for _cls, _children in ((dict, _dict_children), (list, _list_children), (tuple, _tuple_children)):
    register_pytree_flatten_spec(_cls, _children)


def tree_flatten_spec(tree: Any, spec: Any, exact_structural_match: bool = False) -> list[Any]:
    """The leaves of a container that is built as spec says; more items than that are ignored."""
    if spec.is_leaf():
        return [tree]
    kind = type(tree)
    if kind in SUPPORTED_NODES:
        exact = SUPPORTED_NODES_EXACT_MATCH.get(kind)
        if exact_structural_match and exact is not None and not exact(tree, spec):
            raise RuntimeError(f"Cannot flatten tree {tree}: its structure is not {spec}")
        children = SUPPORTED_NODES[kind](tree, spec)
    else:
        node = pytree._node(tree)
        if node is None:
            raise RuntimeError(
                f"{kind} does not have a flatten_fn_spec associated with it: register one with "
                "fx._pytree.register_pytree_flatten_spec, or the class with "
                "utils._pytree.register_pytree_node"
            )
        children = node.flatten(tree)[0]
    if exact_structural_match and len(children) != spec.num_children:
        raise RuntimeError(f"Cannot flatten tree {tree}: its structure is not {spec}")
    return [
        leaf
        for child, part in zip(children, spec.children_specs, strict=False)
        for leaf in tree_flatten_spec(child, part, exact_structural_match)
    ]


__getattr__ = names_missing_from(__name__)
