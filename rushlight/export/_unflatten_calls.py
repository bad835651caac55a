"""unflatten: the graph of a program, cut into those of the calls of its modules."""

from __future__ import annotations

import operator
from typing import Any

from rushlight.export._inputs import Packing
from rushlight.export._module_signatures import KeptCall
from rushlight.fx import Graph, Node
from rushlight.fx.node import map_arg
from rushlight.nn import Module
from rushlight.utils._pytree import tree_leaves

__all__ = ["Cutter", "KeptNodes", "form_of", "scopes_of"]


def leaf_of(value: Any, index: int) -> Any:
    """A leaf of what a module gave."""
    return tree_leaves(value)[index]


class _Packer:
    """Packs the arguments of a call into containers that graphs cannot write down."""

    __name__ = "packed_arguments"

    def __init__(self, packing: Packing) -> None:
        self.pack = packing.pack

    def __call__(self, *leaves: Any) -> Any:
        return self.pack(leaves)


class KeptNodes:
    """A kept call, with the Nodes of the graph that its leaves are."""

    def __init__(self, call: KeptCall, nodes: dict[tuple[str, int], Any]) -> None:
        self.call = call
        self.inputs = [nodes.get(tuple(place)) for place in call.sources]
        self.outputs = [nodes.get(tuple(place)) for place in call.results]
        if not all(isinstance(node, Node) for node in (*self.inputs, *self.outputs)):
            raise ValueError("unflatten: a signature of the program names a value that is none")

    def called(self, graph: Graph, target: str, leaves: list[Node]) -> Node:
        """Writes the call."""
        packing = self.call.inputs
        if _is_plain(packing.spec):
            args, kwargs = packing.pack(leaves)
            return graph.call_module(target, args, kwargs)
        packed = graph.call_function(_Packer(packing), tuple(leaves))
        count = len(packing.spec.children_specs[0].children_specs)
        args, kwargs = (graph.call_function(operator.getitem, (packed, k)) for k in (0, 1))
        return graph.call_module(
            target,
            tuple(graph.call_function(operator.getitem, (args, i)) for i in range(count)),
            {
                name: graph.call_function(operator.getitem, (kwargs, name))
                for name in packing.spec.children_specs[1].context or ()
            },
        )

    def result(self, graph: Graph, called: Node, i: int) -> Node:
        """Writes how output i is taken out of what the call gave."""
        packing = self.call.outputs
        path = _path(packing.spec, packing.tensors[i])
        if path is None:
            return graph.call_function(leaf_of, (called, packing.tensors[i]))
        for key in path:
            called = graph.call_function(operator.getitem, (called, key))
        return called


def _is_plain(spec):
    return spec.is_leaf() or (
        spec.type in (tuple, list, dict) and all(map(_is_plain, spec.children_specs))
    )


def _path(spec, leaf):
    """The keys that lead to a leaf, None where there is a container without keys on the way."""
    if spec.is_leaf():
        return []
    if spec.type not in (tuple, list, dict):
        return None
    keys = spec.context if spec.type is dict else range(len(spec.children_specs))
    for key, child in zip(keys, spec.children_specs, strict=True):
        if leaf < child.num_leaves:
            rest = _path(child, leaf)
            return None if rest is None else [key, *rest]
        leaf -= child.num_leaves
    return None


class _Scope:
    """The Nodes of one call of a module (the root: of the program), cut into those of the calls
    inside and its own. kept: its signature, where that is kept."""

    def __init__(self, path: str, kept: KeptNodes | None = None) -> None:
        self.path, self.kept = path, kept
        self.items: list[Node | _Scope] = []

    def nodes(self):
        for item in self.items:
            if isinstance(item, _Scope):
                yield from item.nodes()
            else:
                yield item


def scopes_of(graph: Graph, calls: Any, kept: dict[int, KeptNodes]) -> _Scope:
    """The calls as a tree; kept: signatures by the number of the call."""
    root = _Scope("")
    stack: list[tuple[_Scope, int | None]] = [(root, None)]
    upcoming = [(*c, kept.get(k)) for k, c in enumerate(calls) if c.end > c.first]
    for node in graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        first, last = node.meta["between"]
        while stack[-1][1] is not None and last >= stack[-1][1]:
            stack.pop()
        while upcoming and upcoming[0][1] <= first:
            path, _, end, signature = upcoming.pop(0)
            inside = stack[-1][0]
            if last >= end or not path.startswith(f"{inside.path}." if inside.path else ""):
                continue  # a part of another branch of the tree: its operators stay here
            made = _Scope(path, signature)
            inside.items.append(made)
            stack.append((made, end))
        stack[-1][0].items.append(node)
    return root


def form_of(graph: Graph) -> list[Any]:
    """What a graph does, whatever its values are called."""
    numbers = {node: f"%{i}" for i, node in enumerate(graph.nodes)}
    return [
        (n.op, None if n.op == "placeholder" else n.target, n.meta.get("modes"),
         repr(map_arg((n.args, n.kwargs), numbers.__getitem__)))
        for n in graph.nodes
    ]  # fmt: skip


class Cutter:
    """Makes the graphs of the parts out of that of the program."""

    def __init__(self, root: Module, graph: Graph, state: dict[Node, str]) -> None:
        self.root, self.state = root, state
        self.outputs = next(n for n in graph.nodes if n.op == "output").args[0]

    def cut(self, scope: _Scope, results: list[Node]) -> tuple[Graph, list[Node]]:
        """The graph of a scope that gives these results, and what it wants from outside."""
        graph, values, wanted = Graph(), {}, []
        anchor: Node | None = None

        def value(node: Node) -> Node:
            nonlocal anchor
            if node not in values:
                own = self._relative(scope, node)
                if own is not None:
                    values[node] = graph.get_attr(own)
                elif scope.kept is not None and node.meta.get("number"):
                    values[node] = graph.node_copy(node, value)  # of sizes that are at hand
                else:
                    with graph.inserting_after(anchor):
                        values[node] = anchor = graph.placeholder(node.name)
                    wanted.append(node)
            return values[node]

        if scope is self.whole:  # inputs in the order of the program's, used or not
            for node in self.inputs:
                values[node] = anchor = graph.placeholder(node.name)
        if scope.kept is not None:
            for given in scope.kept.inputs:
                assert given is not None  # settled before
                anchor = graph.placeholder(given.name)
                values.setdefault(given, anchor)
        for place, item in enumerate(scope.items):
            if isinstance(item, Node):
                made = graph.node_copy(item, value)
                made.meta.pop("between", None)
                values.setdefault(item, made)  # a number may have come in as an argument
            else:
                self._call(graph, values, value, scope, item, self._needed(scope, place, results))
        out = tuple(value(n) if isinstance(n, Node) else n for n in results)
        alone = len(out) == 1 and scope is not self.whole and scope.kept is None
        graph.output(out[0] if alone else out)
        graph.lint()
        return graph, wanted

    def run(self, scope: _Scope, inputs: list[Node]) -> Graph:
        self.whole, self.inputs = scope, inputs
        return self.cut(scope, list(self.outputs))[0]

    def _relative(self, scope, node):
        target = self.state.get(node)
        if target is None or (scope.path and not target.startswith(f"{scope.path}.")):
            return None
        return target[len(scope.path) + 1 :] if scope.path else target

    def _needed(self, scope, place, results):
        """What the items behind this one, and the scope's own results, use of it."""
        inner = scope.items[place]
        made = dict.fromkeys(inner.nodes())
        used = {n for n in results if isinstance(n, Node)}
        for later in scope.items[place + 1 :]:
            for node in [later] if isinstance(later, Node) else later.nodes():
                used.update(node.all_input_nodes)
        return [n for n in made if n in used]

    def _call(self, graph, values, value, scope, inner, needed):
        if inner.kept is not None:
            return self._kept_call(graph, values, value, scope, inner, needed)
        made, wanted = self.cut(inner, needed)
        part = self.root.get_submodule(inner.path)
        alike = [form_of(g) for g in part.graphs]
        if form_of(made) in alike:
            number = alike.index(form_of(made))
        else:
            number = len(part.graphs)
            part.graphs.append(made)
        target = _within(scope, inner)
        kwargs = {"call": number} if number else {}
        called = graph.call_module(target, tuple(map(value, wanted)), kwargs)
        if len(needed) == 1:
            values[needed[0]] = called
            return
        for k, node in enumerate(needed):
            values[node] = graph.call_function(operator.getitem, (called, k))

    def _kept_call(self, graph, values, value, scope, inner, needed):
        """A call as the module makes it: with its arguments as they were packed, for its result."""
        made, wanted = self.cut(inner, inner.kept.outputs)
        lost = [n.name for n in needed if n not in inner.kept.outputs] + [n.name for n in wanted]
        if lost:
            raise NotImplementedError(
                f"unflatten: '{inner.path}' was exported with its signature, and shares the value "
                f"'{lost[0]}' with its surroundings beside its arguments and results; leave it out "
                "of preserve_module_call_signature"
            )
        self.root.get_submodule(inner.path).keep(inner.path, inner.kept.call, made)
        called = inner.kept.called(
            graph, _within(scope, inner), list(map(value, inner.kept.inputs))
        )
        for i, node in enumerate(inner.kept.outputs):
            if node in needed and node not in values:
                values[node] = inner.kept.result(graph, called, i)


def _within(scope, inner):
    """The path of a part, as seen from the scope."""
    return inner.path[len(scope.path) + 1 :] if scope.path else inner.path
