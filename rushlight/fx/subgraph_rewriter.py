"""One piece of a graph replaced by another, wherever it occurs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from rushlight._names.missing import names_missing_from
from rushlight.fx._symbolic_trace import symbolic_trace
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule, _assign_attr, _get_attr, _has_attr
from rushlight.fx.node import Node
from rushlight.fx.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher
from rushlight.nn import Module

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]

_Filter = Callable[[InternalMatch, Graph, Graph], bool]
_Replacing = Callable[[InternalMatch, Graph, Graph], Graph]


class Match(NamedTuple):
    """Where the pattern was found."""

    anchor: Node  # the Node from which the match was found
    nodes_map: dict[Node, Node]  # {of the pattern: of the graph}


@dataclass
class ReplacedPatterns:
    """Where the pattern was found, and what is there now."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def replace_pattern(
    gm: GraphModule, pattern: Callable[..., Any] | GraphModule,
    replacement: Callable[..., Any] | GraphModule,
) -> list[Match]:  # fmt: skip
    """Replaces the pattern in gm's graph, in place, where it occurs without overlaps.

    pattern and replacement are functions or modules with the same inputs; inputs of the pattern
    stand for anything. Nodes inside a match must not be used outside, but for what it returns.

    Arguments:
        gm: the GraphModule.
        pattern: what is looked for.
        replacement: what takes its place.

    Returns:
        A Match for each place.

    Example:
        >>> def f(x):
        ...     return rl.relu(x) + 1
        >>> gm = rl.fx.symbolic_trace(f)
        >>> matches = rl.fx.replace_pattern(gm, lambda x: rl.relu(x), lambda x: rl.tanh(x))
        >>> len(matches), gm(rl.zeros(2))
        (1, tensor([1., 1.]))
    """
    found = _replace_pattern(gm, pattern, replacement)
    return [Match(match.anchor, match.nodes_map) for match in found]


def replace_pattern_with_filters(
    gm: GraphModule, pattern: Callable[..., Any] | Graph | GraphModule,
    replacement: Callable[..., Any] | Graph | GraphModule | None = None,
    match_filters: list[_Filter] | None = None, ignore_literals: bool = False,
    replacement_callback: _Replacing | None = None, node_name_match: str = "",
) -> list[ReplacedPatterns]:  # fmt: skip
    """replace_pattern for the matches that all filters accept.

    replacement_callback: makes the replacement for a match, in the place of one for all.
    """
    return _replace_pattern(
        gm, pattern, replacement, match_filters, ignore_literals, replacement_callback,
        node_name_match,
    )  # fmt: skip


def _graph_of(source: Callable[..., Any] | Graph | GraphModule) -> Graph:
    if isinstance(source, GraphModule):
        return source.graph
    return source if isinstance(source, Graph) else symbolic_trace(source).graph


def _replace_pattern(
    gm, pattern, replacement=None, match_filters=None, ignore_literals=False,
    replacement_callback=None, node_name_match="",
):  # fmt: skip
    if replacement is None and replacement_callback is None:
        raise AssertionError("Must provide either replacement GraphModule or replacement callback")
    graph, pattern_graph = gm.graph, _graph_of(pattern)
    matcher = SubgraphMatcher(pattern_graph, ignore_literals=ignore_literals)
    matches = [
        match
        for match in matcher.match(graph, node_name_match)
        if all(accepts(match, graph, pattern_graph) for accepts in match_filters or ())
    ]
    common = _graph_of(replacement) if replacement is not None else None
    done, changed = [], {}
    for match in matches:
        new_graph = common or replacement_callback(match, graph, pattern_graph)
        new = _replace_one(graph, match, new_graph, changed)
        done.append(ReplacedPatterns(match.anchors[0], match.nodes_map, new))
        if new_graph.owning_module is not None:
            _replace_attributes(gm, new_graph.owning_module)
    gm.recompile()
    if isinstance(replacement, Module):
        _replace_attributes(gm, replacement)
    return done


def _replace_one(graph, match, new_graph, changed):
    """Puts a copy of new_graph before the first user of what is replaced."""
    placeholders = [node for node in new_graph.nodes if node.op == "placeholder"]
    if len(placeholders) != len(match.placeholder_nodes):
        raise AssertionError(
            f"the replacement has {len(placeholders)} inputs, the pattern "
            f"{len(match.placeholder_nodes)}: they must be the same"
        )
    values = {}
    for placeholder, node in zip(placeholders, match.placeholder_nodes, strict=True):
        values[placeholder] = changed.get(node, node) if isinstance(node, Node) else node
    users = {user for node in match.returning_nodes for user in node.users}
    inside = set(match.nodes_map.values())
    before = min(users - inside, default=None) if users else None
    if before is None:
        before = max(n for n in inside if isinstance(n, Node)).next
    earliest = [n for n in values.values() if isinstance(n, Node)]
    if earliest and before is not graph._root and before <= max(earliest):
        before = max(earliest).next
    new = []
    with graph.inserting_before(before):
        for node in new_graph.nodes:
            if node.op == "placeholder":
                continue
            if node.op == "output":
                break
            values[node] = graph.node_copy(node, lambda n: values[n])
            new.append(values[node])
    returned = new_graph.output_node().args[0]
    returned = list(returned) if isinstance(returned, (list, tuple)) else [returned]
    if len(returned) != len(match.returning_nodes):
        raise AssertionError("the replacement must return as many values as the pattern")
    for old, replacement in zip(match.returning_nodes, returned, strict=True):
        now = values[replacement] if isinstance(replacement, Node) else replacement
        old.replace_all_uses_with(now, lambda user: user not in new)
        changed[old] = now
    for node in reversed(list(graph.nodes)):
        is_old = node in inside and node not in match.placeholder_nodes
        if is_old and node.op not in ("placeholder", "output") and not node.users:
            graph.erase_node(node)
    return new


def _replace_attributes(gm: GraphModule, replacement: Module) -> None:
    """What the graph names now comes from the replacement, and what it does not name goes."""
    gm.delete_all_unused_submodules()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr") or _has_attr(gm, node.target):
            continue
        if not _has_attr(replacement, node.target):
            raise RuntimeError(
                f"replace_pattern: the replacement names '{node.target}', which neither it nor the "
                "module has"
            )
        _assign_attr(copy.deepcopy(_get_attr(replacement, node.target)), gm, node.target)
    gm.graph.lint()


__getattr__ = names_missing_from(__name__)
