"""Exported programs as fx graphs, to look at and to transform."""

from __future__ import annotations

import json
import operator
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.export._symbols import BUILTINS
from rushlight.export._unify import statements_of
from rushlight.export.graph_signature import InputKind
from rushlight.jit._program import Code

__all__ = ["graph_module_of", "mutated_state", "program_of", "sym_size"]


def sym_size(x: Tensor, dim: int) -> int:
    """The size of a dimension, as graphs of exported programs have it."""
    return x.size(dim)


def scripted_call(*args: Any) -> Any:
    """Stands for a call of a scripted function, which graphs cannot show."""
    raise NotImplementedError(
        "graph_module: this program calls scripted functions, which graphs only name; "
        "ExportedProgram.code shows them, and module() runs them"
    )


def program_of(code: Code) -> dict[str, Any]:
    """program.json."""
    return json.loads(_C._jit_as_functions(code.capsule))


def forward_of(program: dict[str, Any]) -> dict[str, Any]:
    """The function of the program."""
    return next(f for f in program["functions"] if f["method"] and f["name"] == "forward")


def mutated_state(program: dict[str, Any], names: list[str]) -> tuple[str, ...]:
    """The parameters and buffers that a run writes to."""
    found = []
    for s in statements_of(forward_of(program)["body"]):
        if "op" in s:
            args = list(s["args"].values())
            written = _written_arguments(s)
            for i, a in enumerate(args):
                if i in written and isinstance(a, dict) and "state" in a:
                    found.append(names[a["state"]])
        elif "set_state" in s:
            found.append(names[s["set_state"]])
    return tuple(dict.fromkeys(found))


_BATCH_NORMS = ("batch_norm", "instance_norm", "native_batch_norm")


def _written_arguments(s):
    """Which arguments, by position among those that are there."""
    name, args = s["op"], list(s["args"])
    if s.get("form") == "out":
        return {len(args) - 1}
    if name == "_batch_norm_counted":
        return {i for i, a in enumerate(args) if a.startswith("running_") or a == "batches"}
    if name.rpartition("::")[2] in _BATCH_NORMS:
        training = s["args"].get("training", s["args"].get("use_input_stats", {"is": False}))
        if training == {"is": False}:
            return set()
        return {i for i, a in enumerate(args) if a.startswith("running_")}
    return {0} if name.endswith("_") and not name.endswith("__") else set()


class _Builder:
    """Makes the graph."""

    def __init__(self, program, code):
        from rushlight.fx import Graph

        self.graph, self.code, self.function = Graph(), code, forward_of(program)
        self.nodes: dict[int, Any] = {}  # by local
        self.state: dict[int, Any] = {}
        self.constants: dict[int, Any] = {}
        self.names: dict[str, list[Any]] = {"state": [], "inputs": [], "outputs": []}
        self.known: dict[str, Any] = {"size": sym_size, **BUILTINS}
        self.known.update(dict.fromkeys(("get", "item", "get_key"), operator.getitem))

    def run(self, dead_code=False):
        from rushlight.fx import GraphModule
        from rushlight.nn import Module

        for kind in (True, False):
            for i, (name, is_parameter, _, persistent) in enumerate(self.code.state):
                if is_parameter is not kind:
                    continue
                prefix = "p" if is_parameter else "b"
                node = self.graph.placeholder(f"{prefix}_{name.replace('.', '_')}")
                self.state[i] = node
                what = InputKind.PARAMETER if is_parameter else InputKind.BUFFER
                self.names["state"].append(
                    (what, node.name, name, None if is_parameter else persistent)
                )
        for i in range(len(self.code.constants)):
            node = self.constants[i] = self.graph.placeholder(f"c_lifted_tensor_{i}")
            self.names["state"].append(
                (InputKind.CONSTANT_TENSOR, node.name, f"lifted_tensor_{i}", None)
            )
        for i, row in enumerate(self.function["inputs"]):
            self.nodes[i] = self.graph.placeholder(row["name"])
            self.names["inputs"].append(self.nodes[i].name)
        self._block(self.function["body"], {})
        if not dead_code:
            self.graph.eliminate_dead_code()
        module = GraphModule(Module(), self.graph)
        module._names = self.names
        values = {("local", i): node for i, node in self.nodes.items()}
        values.update({("state", i): node for i, node in self.state.items()})
        module._values = {place: getattr(node, "name", None) for place, node in values.items()}
        return module

    def _block(self, body, modes):
        for s in body:
            if "with" in s:
                self._block(s["body"], s["with"])
            elif "op" in s:
                self._op(s, modes)
            elif "do" in s:
                self._builtin(s)
            elif "make" in s:
                self.nodes[s["to"]] = tuple(self._operand(o) for o in s["make"])
            elif "call" in s:
                args = tuple(self._operand(o) for o in s["args"])
                self.nodes[s["to"]] = self.graph.call_function(scripted_call, args)
            elif "move" in s or "cast" in s:
                self.nodes[s["to"]] = self._operand(s.get("move", s.get("cast")))
            elif "return" in s:
                self._return(s)

    def _operand(self, o):
        if isinstance(o, int):
            return self.nodes[o]
        ((kind, inner),) = o.items()
        if kind == "list":
            return [self._operand(item) for item in inner]
        if kind == "state":
            return self.state[inner]
        if kind == "constant":
            return self.constants[inner]
        return _value(inner)

    def _op(self, s, modes):
        from rushlight import ops

        namespace, _, name = s["op"].rpartition("::")
        target = getattr(getattr(ops, namespace or "aten"), name)
        kwargs = {key: self._operand(o) for key, o in s["args"].items()}
        args = []
        for key in _positional(s):
            if key not in kwargs:
                break
            args.append(kwargs.pop(key))
        node = self.graph.call_function(target, tuple(args), kwargs)
        if modes:
            node.meta["modes"] = modes
        if len(s["to"]) == 1:
            self.nodes[s["to"][0]] = node
            return
        for k, to in enumerate(s["to"]):
            if to is not None:
                self.nodes[to] = self.graph.call_function(operator.getitem, (node, k))

    def _builtin(self, s):
        if s["do"] in self.known:  # what else there is belongs to the program's checks
            args = tuple(self._operand(o) for o in s["args"])
            self.nodes[s["to"]] = self.graph.call_function(self.known[s["do"]], args)

    def _return(self, s):
        found = self._operand(s["return"])
        outputs = found if isinstance(found, tuple) else (found,)
        self.graph.output(outputs)
        self.names["outputs"] = [getattr(node, "name", str(node)) for node in outputs]


def _positional(s):
    """The names of an operator's parameters that may be given by position, in order."""
    for overload, _, _, _, _, _, specs, *_ in _C._jit_overloads(s["op"]):
        names = [spec[0] for spec in specs]
        if overload == s.get("overload", "") and set(s["args"]) <= set(names):
            return [spec[0] for spec in specs if not spec[3]]
    return []


def _value(inner):
    if isinstance(inner, dict):
        ((kind, text),) = inner.items()
        if kind == "float":
            return float(text)
        if kind == "device":
            return _C.device(text)
        return getattr(_C, text.rpartition(".")[2])  # memory formats have the package's name
    return inner


def graph_module_of(program: dict[str, Any], code: Code) -> Any:
    """The fx GraphModule of a program."""
    return _Builder(program, code).run()
