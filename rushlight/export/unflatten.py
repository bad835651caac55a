"""unflatten: the tree of modules of an exported program, each with a graph of its own."""

from __future__ import annotations

import abc
import contextlib
import operator
from typing import Any, NoReturn

import rushlight
from rushlight._C import Tensor
from rushlight.export._graph import _Builder
from rushlight.export._inputs import _same
from rushlight.export._module_signatures import KeptCall
from rushlight.export._symbols import COMPARED
from rushlight.export._unflatten_calls import Cutter, KeptNodes, form_of, scopes_of
from rushlight.export.exported_program import ExportedProgram
from rushlight.fx import Graph, Interpreter, Node
from rushlight.fx.immutable_collections import immutable_dict, immutable_list
from rushlight.nn import Module
from rushlight.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

__all__ = ["FlatArgsAdapter", "InterpreterModule", "UnflattenedModule", "unflatten"]


class FlatArgsAdapter(abc.ABC):
    """Makes inputs that are packed in another way those of an exported program.

    Example:
        >>> class Net(nn.Module):
        ...     def forward(self, x):
        ...         return x[0] - x[1]
        >>> class FromDict(rl.export.FlatArgsAdapter):
        ...     def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
        ...         return input_args
        >>> one, two = rl.tensor([1.0]), rl.tensor([2.0])
        >>> program = rl.export.export(Net(), ([one, two],))
        >>> rl.export.unflatten(program, FromDict())({"a": two, "b": one})
        tensor([1.])
    """

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
        if self.function["locals"][s["to"]] in ("int", "float"):
            self.nodes[s["to"]].meta["number"] = True

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
    has a graph per call that differs; ``call`` says which. A part that was exported with its
    signature is called as the module is."""

    def __init__(self) -> None:
        super().__init__()
        self.graphs: list[Graph] = []
        self._kept: list[tuple[KeptCall, int]] = []  # and which graph

    def keep(self, path: str, call: KeptCall, graph: Graph) -> None:
        """Another call of a part with a signature; calls are told apart by their arguments."""
        alike = [form_of(g) for g in self.graphs]
        if form_of(graph) not in alike:
            self.graphs.append(graph)
            alike.append(form_of(graph))
        number = alike.index(form_of(graph))
        for known, which in self._kept:
            same = _same(known.inputs.spec, call.inputs.spec)
            if which != number and same and known.inputs.fixed == call.inputs.fixed:
                raise NotImplementedError(
                    f"unflatten: '{path}' was exported with its signature, and two calls of it "
                    "with arguments alike ran different operators; leave it out of "
                    "preserve_module_call_signature"
                )
        self._kept.append((call, number))

    @property
    def graph(self) -> Graph:
        """The graph of the first call."""
        if not self.graphs:
            raise AttributeError("InterpreterModule: this part runs no operators by itself")
        return self.graphs[0]

    def forward(
        self, *args: Any, call: int = 0, **kwargs: Any
    ) -> Tensor | float | tuple[Any, ...] | list[Any] | dict[Any, Any]:
        """Runs the graph of a call: its value, or several as a tuple."""
        if not self.graphs:
            raise RuntimeError("InterpreterModule: this part runs no operators by itself")
        if self._kept:
            return self._as_the_module(args, kwargs)
        if kwargs:
            raise TypeError(f"InterpreterModule: unexpected argument '{next(iter(kwargs))}'")
        return self._run(args, call)

    def _run(self, args, call):
        runner = _Run(self, graph=self.graphs[call])
        runner.extra_traceback = False  # errors name the part, and operators name themselves
        return runner.run(*args, enable_io_processing=False)

    def _as_the_module(self, args, kwargs):
        args, kwargs = _plain(args), _plain(kwargs)
        for kept, number in self._kept:
            names = kept.inputs.spec.children_specs[1].context or []
            given = {n: kwargs[n] for n in names} if set(names) == set(kwargs) else kwargs
            leaves, spec = tree_flatten((args, given))
            places = kept.inputs.tensors
            if _same(spec, kept.inputs.spec) and all(
                i in places or leaf is fixed or (type(leaf) is type(fixed) and leaf == fixed)
                for i, (leaf, fixed) in enumerate(zip(leaves, kept.inputs.fixed, strict=True))
            ):
                return kept.outputs.pack(self._run([leaves[i] for i in places], number))
        kept.inputs.unpack((args, given))  # says how they are packed, or what is fixed
        raise ValueError("InterpreterModule: the arguments are not those of the export")

    def print_readable(self, print_output: bool = True) -> str:
        """The graphs as text."""
        text = "\n".join(map(str, self.graphs))
        if print_output:
            print(text)
        return text


def _plain(value):
    """Without the containers that Nodes keep lists and dicts in."""
    if isinstance(value, dict):
        made = {key: _plain(item) for key, item in value.items()}
        return made if isinstance(value, immutable_dict) or type(value) is dict else value
    if isinstance(value, immutable_list) or type(value) in (list, tuple):
        kind = tuple if isinstance(value, tuple) else list
        return kind(_plain(item) for item in value)
    return value


class UnflattenedModule(InterpreterModule):
    """The modules of an exported program in their tree; made by export.unflatten.

    Arguments:
        export_module: what export gave.
        flat_args_adapter: makes inputs that are packed in another way fit.

    Example:
        >>> program = rl.export.export(nn.Sequential(nn.Linear(3, 2)), (rl.zeros(2, 3),))
        >>> tree = rl.export.UnflattenedModule(program, flat_args_adapter=None)
        >>> [name for name, _ in tree.named_parameters()]
        ['0.weight', '0.bias']
    """

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
        values = {("local", i): node for i, node in builder.nodes.items()}
        values.update({("state", i): node for i, node in builder.state.items()})
        kept = {k: KeptNodes(call, values) for k, call in ep._kept_calls.items()}
        cutter = Cutter(self, whole.graph, state)
        self.graphs.append(cutter.run(scopes_of(whole.graph, ep._calls, kept), inputs))

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
        return self._packings[1].pack(self._run(tensors, 0))

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
    a graph (fx) of the operators that they ran. It shares the program's parameters and buffers.

    Arguments:
        module: what export gave.
        flat_args_adapter: makes inputs that are packed in another way fit.

    Raises:
        TypeError: where it is no ExportedProgram.

    Example:
        >>> net = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
        >>> program = rl.export.export(net, (rl.zeros(2, 3),))
        >>> tree = rl.export.unflatten(program, flat_args_adapter=None)
        >>> [name for name, _ in tree.named_children()], tree(rl.zeros(2, 3)).shape
        (['0', '1'], rushlight.Size([2, 2]))
    """
    if not isinstance(module, ExportedProgram):
        raise TypeError(f"unflatten: expected an ExportedProgram, got {type(module).__name__}")
    return UnflattenedModule(module, flat_args_adapter)
