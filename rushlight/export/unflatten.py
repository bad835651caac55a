"""unflatten: the tree of modules of an exported program, each with a graph of its own."""

from __future__ import annotations

import abc
import contextlib
import operator
from typing import Any, NoReturn

import rushlight
from rushlight._C import Tensor
from rushlight.export._graph import _Builder
from rushlight.export._symbols import COMPARED
from rushlight.export.exported_program import ExportedProgram
from rushlight.fx import Graph, Interpreter, Node
from rushlight.fx.node import map_arg
from rushlight.nn import Module
from rushlight.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

__all__ = ["FlatArgsAdapter", "InterpreterModule", "UnflattenedModule", "unflatten"]


class FlatArgsAdapter(abc.ABC):
    """Makes inputs that are packed in another way those of an exported program."""

    @abc.abstractmethod
    def adapt(
        self, target_spec: TreeSpec, input_spec: TreeSpec, input_args: list[Any],
        metadata: dict[str, Any] | None = None, obj: Any | None = None,
    ) -> list[Any]:  # fmt: skip
        """The leaves of target_spec, made of those of input_spec."""

    def get_flat_arg_paths(self) -> list[str]:
        """Paths of the leaves, for messages."""
        return []


def check_sizes(wrong: bool, kind: str, *message: Any) -> None:
    """A check of the program's; kind: of its error."""
    if wrong:
        error = RuntimeError if kind == "RuntimeError" else AssertionError
        raise error("".join(map(str, message)))


class _CheckedBuilder(_Builder):
    """The graph with the checks of sizes, and each Node with the number of its instruction."""

    def __init__(self, program, code):
        super().__init__(program, code)
        self.count = 0
        for how in COMPARED:
            for kind in ("int", "float"):
                self.known[f"{how}_{kind}"] = getattr(operator, how)
        self.known.update({"not": operator.not_, "dim": Tensor.dim, "len_list": len})

    def _block(self, body, modes):
        for s in body:
            before = len(self.graph.nodes)
            if "if" in s:
                self._check(s)
            elif "call" in s:
                raise NotImplementedError(
                    "unflatten: the program calls scripted functions, whose branches and loops "
                    "graphs do not have; module() runs it"
                )
            else:
                super()._block([s], modes)
            if "with" not in s:  # sizes and checks stand between two instructions
                between = (self.count, self.count) if "op" in s else (self.count - 1, self.count)
                for node in list(self.graph.nodes)[before:]:
                    node.meta["between"] = between
            self.count += "op" in s

    def _builtin(self, s):
        if s["do"] not in self.known:
            raise NotImplementedError(f"unflatten: graphs have no '{s['do']}'; module() runs it")
        super()._builtin(s)

    def _check(self, s):
        """if wrong: raise kind(message)."""
        *parts, last = s["then"]
        message = [last["message"]]
        if parts:
            message = parts[0]["args"]  # concat
        wrong, *texts = (self._operand(o) for o in (s["if"], *message))
        self.graph.call_function(check_sizes, (wrong, last["raise"], *texts))


@contextlib.contextmanager
def _modes(asked: dict[str, Any]):
    with contextlib.ExitStack() as stack:
        if "grad" in asked:
            stack.enter_context(rushlight.set_grad_enabled(asked["grad"]))
        for device, dtype in asked.get("autocast", {}).items():
            stack.enter_context(rushlight.autocast(device, dtype=getattr(rushlight, dtype)))
        yield


class _Run(Interpreter):
    def run_node(self, n: Node) -> Any:
        if "modes" not in n.meta:
            return super().run_node(n)
        with _modes(n.meta["modes"]):
            return super().run_node(n)


class InterpreterModule(Module):
    """A part of an unflattened program. It is called with the values that come from outside, in the
    order of their use, and gives those that are used outside. A part that was called several times
    has a graph per call that differs; ``call`` says which."""

    def __init__(self) -> None:
        super().__init__()
        self.graphs: list[Graph] = []

    @property
    def graph(self) -> Graph:
        """The graph of the first call."""
        if not self.graphs:
            raise AttributeError("InterpreterModule: this part runs no operators by itself")
        return self.graphs[0]

    def forward(self, *args: Any, call: int = 0) -> Tensor | float | tuple[Any, ...]:
        """Runs the graph of a call: its value, or several as a tuple."""
        if not self.graphs:
            raise RuntimeError("InterpreterModule: this part runs no operators by itself")
        runner = _Run(self, graph=self.graphs[call])
        runner.extra_traceback = False  # errors name the part, and operators name themselves
        return runner.run(*args, enable_io_processing=False)

    def print_readable(self, print_output: bool = True) -> str:
        """The graphs as text."""
        text = "\n".join(map(str, self.graphs))
        if print_output:
            print(text)
        return text


class _Scope:
    """The Nodes of one call of a module (the root: of the program), cut into those of the calls
    inside and its own."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.items: list[Node | _Scope] = []

    def nodes(self):
        for item in self.items:
            if isinstance(item, _Scope):
                yield from item.nodes()
            else:
                yield item


def _scopes(graph: Graph, calls: Any) -> _Scope:
    root = _Scope("")
    stack = [(root, None)]
    upcoming = [c for c in calls if c.end > c.first]
    for node in graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        first, last = node.meta["between"]
        while stack[-1][1] is not None and last >= stack[-1][1]:
            stack.pop()
        while upcoming and upcoming[0].first <= first:
            path, _, end = upcoming.pop(0)
            inside = stack[-1][0]
            if last >= end or not path.startswith(f"{inside.path}." if inside.path else ""):
                continue  # a part of another branch of the tree: its operators stay here
            made = _Scope(path)
            inside.items.append(made)
            stack.append((made, end))
        stack[-1][0].items.append(node)
    return root


def _form(graph: Graph) -> list[Any]:
    """What a graph does, whatever its values are called."""
    numbers = {node: f"%{i}" for i, node in enumerate(graph.nodes)}
    return [
        (n.op, None if n.op == "placeholder" else n.target, n.meta.get("modes"),
         repr(map_arg((n.args, n.kwargs), numbers.__getitem__)))
        for n in graph.nodes
    ]  # fmt: skip


class _Cutter:
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
                else:
                    with graph.inserting_after(anchor):
                        values[node] = anchor = graph.placeholder(node.name)
                    wanted.append(node)
            return values[node]

        if scope is self.whole:  # inputs in the order of the program's, used or not
            for node in self.inputs:
                values[node] = anchor = graph.placeholder(node.name)
        for place, item in enumerate(scope.items):
            if isinstance(item, Node):
                made = graph.node_copy(item, value)
                made.meta.pop("between", None)
                values[item] = made
            else:
                self._call(graph, values, value, scope, item, self._needed(scope, place, results))
        out = tuple(value(n) if isinstance(n, Node) else n for n in results)
        graph.output(out[0] if len(out) == 1 and scope is not self.whole else out)
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
        made, wanted = self.cut(inner, needed)
        part = self.root.get_submodule(inner.path)
        alike = [_form(g) for g in part.graphs]
        if _form(made) in alike:
            number = alike.index(_form(made))
        else:
            number = len(part.graphs)
            part.graphs.append(made)
        target = inner.path[len(scope.path) + 1 :] if scope.path else inner.path
        kwargs = {"call": number} if number else {}
        called = graph.call_module(target, tuple(map(value, wanted)), kwargs)
        if len(needed) == 1:
            values[needed[0]] = called
            return
        for k, node in enumerate(needed):
            values[node] = graph.call_function(operator.getitem, (called, k))


class UnflattenedModule(InterpreterModule):
    """The modules of an exported program in their tree; made by export.unflatten."""

    def __init__(
        self, export_module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None
    ) -> None:
        super().__init__()
        ep = export_module
        self._packings = (ep._inputs, ep._output, flat_args_adapter)
        self.original_name = ep._name
        self._hold(ep)
        for path, *_ in ep._calls:
            self._part(path.split("."))
        for name, tensor in ep.constants.items():
            self.register_buffer(name, tensor, persistent=False)
        builder = _CheckedBuilder(ep._program(), ep._code)
        whole = builder.run(dead_code=True)
        names = builder.names
        placeholders = {n.name: n for n in whole.graph.nodes if n.op == "placeholder"}
        state = {placeholders[name]: target for _, name, target, _ in names["state"]}
        inputs = [placeholders[name] for name in names["inputs"]]
        cutter = _Cutter(self, whole.graph, state)
        self.graphs.append(cutter.run(_scopes(whole.graph, ep._calls), inputs))

    def _hold(self, ep):
        """Parameters and buffers under all their names."""
        state = ep._code.state
        order = [(i, 1, i, row[0]) for i, row in enumerate(state)]
        order += [(before, 0, which, name) for name, which, before in ep._code.aliases]
        for _, _, which, name in sorted(order, key=lambda item: item[:2]):
            _, is_parameter, _, persistent = state[which]
            *path, last = name.split(".")
            if is_parameter:
                self._part(path).register_parameter(last, ep._tensors[which])
            else:
                self._part(path).register_buffer(last, ep._tensors[which], persistent)

    def _part(self, path):
        part: Module = self
        for word in path:
            if word not in part._modules:
                part.add_module(word, InterpreterModule())
            part = part._modules[word]
        return part

    def process_forward_inputs(self, *args: Any, **kwargs: Any) -> list[Tensor]:
        """The tensors of a call."""
        inputs, _, adapter = self._packings
        names = inputs.spec.children_specs[1].context or []
        if set(names) == set(kwargs):
            kwargs = {name: kwargs[name] for name in names}
        leaves, spec = tree_flatten((args, kwargs))
        if adapter is not None and spec != inputs.spec:
            leaves = adapter.adapt(inputs.spec, spec, leaves, None, self)
            args, kwargs = tree_unflatten(leaves, inputs.spec)
        try:
            return inputs.unpack((args, kwargs))
        except ValueError as error:
            raise ValueError(f"{self.original_name}: {error}") from None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Called like the module that was exported."""
        tensors = self.process_forward_inputs(*args, **kwargs)
        return self._packings[1].pack(super().forward(*tensors))

    def train(self, mode: bool = True) -> NoReturn:
        """Refused: an exported program is in the mode of its module."""
        raise NotImplementedError(
            "train: an unflattened program does what its module did in the mode of the export; "
            "export the module again in the other mode"
        )

    def eval(self) -> NoReturn:
        """Refused, as train is."""
        self.train(False)


def unflatten(
    module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None
) -> UnflattenedModule:
    """A module with the tree of the one that was exported: parts have their names, their state, and
    a graph (fx) of the operators that they ran. It shares the program's parameters and buffers."""
    if not isinstance(module, ExportedProgram):
        raise TypeError(f"unflatten: expected an ExportedProgram, got {type(module).__name__}")
    return UnflattenedModule(module, flat_args_adapter)
