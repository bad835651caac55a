"""Where a small graph occurs in a large one."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rushlight._C import Tensor
from rushlight._names.missing import names_missing_from
from rushlight.fx.graph import Graph
from rushlight.fx.node import Node
from rushlight.fx.operator_schemas import ArgsKwargsPair
from rushlight.nn import Module

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """One place where the pattern was found."""

    anchors: list[Node]  # Nodes of the pattern from which the search began
    nodes_map: dict[Node, Node] = field(default_factory=dict)  # {of the pattern: of the graph}
    placeholder_nodes: list[Node] = field(default_factory=list)  # for the pattern's inputs
    returning_nodes: list[Node] = field(default_factory=list)  # for what the pattern returns
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def __copy__(self) -> InternalMatch:
        return InternalMatch(
            self.anchors, dict(self.nodes_map), list(self.placeholder_nodes),
            list(self.returning_nodes), dict(self.name_node_map),
        )  # fmt: skip


class SubgraphMatcher:
    """Finds a pattern, whose placeholders stand for anything.

    match_output, match_placeholder: those of the pattern must be those of the graph.
    ignore_literals: numbers and texts in the pattern stand for any others.
    """

    def __init__(
        self, pattern: Graph, match_output: bool = False, match_placeholder: bool = False,
        remove_overlapping_matches: bool = True, ignore_literals: bool = False,
    ) -> None:  # fmt: skip
        if len(pattern.nodes) == 0:
            raise ValueError("SubgraphMatcher: the pattern has no nodes")
        for node in pattern.nodes:
            if node.op not in ("output", "placeholder") and not node.users:
                raise AssertionError(f"SubgraphMatcher: nothing in the pattern uses {node}")
        self.pattern = pattern
        self.match_output, self.match_placeholder = match_output, match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        output = pattern.output_node()
        self.pattern_placeholder_nodes = [n for n in pattern.nodes if n.op == "placeholder"]
        self.pattern_returning_nodes = output.all_input_nodes
        if match_output:
            self.pattern_anchors = [output]
        else:
            self.pattern_anchors = [n for n in output.all_input_nodes if len(n.users) == 1]

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """All places where the pattern occurs, the last in the graph first to be kept."""
        found = []
        for match in self._matches(graph, list(self.pattern_anchors), node_name_match):
            if not self._is_contained(match.nodes_map):
                continue
            match.placeholder_nodes = [
                match.nodes_map[pn]
                for pn in self.pattern_placeholder_nodes
                if pn in match.nodes_map
            ]
            match.returning_nodes = [match.nodes_map[pn] for pn in self.pattern_returning_nodes]
            found.append(match)
        if self.remove_overlapping_matches:
            found = self._remove_overlapping_matches(found)
        return found

    def _matches(self, graph: Graph, anchors: list[Node], name: str) -> Iterator[InternalMatch]:
        """One match per choice of Nodes for the anchors that fits."""

        def go_on(at: int, match: InternalMatch) -> Iterator[InternalMatch]:
            if at == len(anchors):
                yield match
                return
            if anchors[at] in match.nodes_map:
                yield from go_on(at + 1, match)
                return
            for node in list(graph.nodes):
                attempt = copy.copy(match)
                if self._match_nodes(anchors[at], node, attempt, name):
                    yield from go_on(at + 1, attempt)

        yield from go_on(0, InternalMatch(anchors=anchors))

    def _nodes_are_equal(self, pn: Node, gn: Node, node_name_match: str = "") -> bool:
        """Whether the Nodes do the same, arguments apart."""
        if not self.match_placeholder and pn.op == "placeholder":
            return True
        if node_name_match and node_name_match in gn.name:
            return True
        if pn.op != gn.op:
            return False
        if pn.op in ("placeholder", "output"):
            return True
        if pn.op == "get_attr":
            return self._match_attributes(pn, gn)
        return bool(pn.target == gn.target)

    def _match_attributes(self, pn: Node, gn: Node) -> bool:
        if pn.target == gn.target:
            return True
        values = []
        for node in (pn, gn):
            found: Any = node.graph.owning_module
            for part in node.target.split("."):
                found = getattr(found, part, None)
            values.append(found)
        ours, theirs = values
        if ours is None or type(ours) is not type(theirs):
            return False
        if isinstance(ours, Tensor):
            return True  # constants of the pattern stand for the graph's
        return ours is theirs

    def _match_literals(self, pn: Any, gn: Any) -> bool:
        if isinstance(pn, Node) or isinstance(gn, Node):
            return False
        if self.ignore_literals and not isinstance(pn, (list, tuple, dict, slice)):
            return True
        return type(pn) is type(gn) and bool(pn == gn)

    def _match_nodes(
        self, pn: Node, gn: Node, match: InternalMatch, node_name_match: str = ""
    ) -> bool:
        """Whether gn and all that it is made of fit pn; match is filled, or left as it was."""
        known = match.nodes_map.get(pn)
        if known is not None:
            return known is gn
        if gn in match.nodes_map.values() and pn.op != "placeholder":
            return False
        if not self._nodes_are_equal(pn, gn, node_name_match):
            return False
        before = dict(match.nodes_map)
        match.nodes_map[pn] = gn
        if pn.op == "placeholder":
            return True
        if self._match_arguments(pn, gn, match, node_name_match):
            return True
        match.nodes_map.clear()
        match.nodes_map.update(before)
        return False

    def _match_arguments(self, pn: Node, gn: Node, match: InternalMatch, name: str) -> bool:
        ours, theirs = (pn.args, pn.kwargs), (gn.args, gn.kwargs)
        if len(pn.args) != len(gn.args) or set(pn.kwargs) != set(gn.kwargs):
            full = [_by_name(node) for node in (pn, gn)]
            if full[0] is None or full[1] is None:
                return False
            ours, theirs = ((), full[0].kwargs), ((), full[1].kwargs)
        return self._match_values(ours, theirs, match, name)

    def _match_values(self, ours: Any, theirs: Any, match: InternalMatch, name: str) -> bool:
        if isinstance(ours, Node):
            if isinstance(theirs, Node):
                return self._match_nodes(ours, theirs, match, name)
            return ours.op == "placeholder" and self._placeholder_is(ours, theirs, match)
        if isinstance(ours, (list, tuple)) and isinstance(theirs, (list, tuple)):
            return len(ours) == len(theirs) and all(
                self._match_values(a, b, match, name) for a, b in zip(ours, theirs, strict=True)
            )
        if isinstance(ours, dict) and isinstance(theirs, dict):
            return set(ours) == set(theirs) and all(
                self._match_values(value, theirs[key], match, name) for key, value in ours.items()
            )
        if isinstance(ours, slice) and isinstance(theirs, slice):
            return self._match_values(
                (ours.start, ours.stop, ours.step), (theirs.start, theirs.stop, theirs.step),
                match, name,
            )  # fmt: skip
        return self._match_literals(ours, theirs)

    def _placeholder_is(self, placeholder: Node, literal: Any, match: InternalMatch) -> bool:
        """An input of the pattern where the graph has a number: the same number everywhere."""
        if placeholder in match.nodes_map:
            known = match.nodes_map[placeholder]
            return type(known) is type(literal) and bool(known == literal)
        match.nodes_map[placeholder] = literal
        return True

    def _is_contained(self, nodes_map: dict[Node, Node]) -> bool:
        """Whether nobody outside uses what the pattern uses up."""
        returned = {nodes_map[pn] for pn in self.pattern_returning_nodes}
        inner = {gn for pn, gn in nodes_map.items() if pn.op not in ("placeholder", "get_attr")}
        return all(
            user in inner for gn in inner - returned if gn.op != "output" for user in gn.users
        )

    def _remove_overlapping_matches(self, matches: list[InternalMatch]) -> list[InternalMatch]:
        kept, taken = [], set()
        for match in matches:
            nodes = {
                gn for pn, gn in match.nodes_map.items() if pn.op not in ("placeholder", "output")
            }
            if not nodes & taken:
                kept.append(match)
                taken |= nodes
        return kept


def _by_name(node: Node) -> ArgsKwargsPair | None:
    module = node.graph.owning_module
    if module is None:
        if node.op != "call_function":
            return None
        module = Module()
    return node.normalized_arguments(module, normalize_to_only_use_kwargs=True)


__getattr__ = names_missing_from(__name__)
