"""Graphs run Node by Node."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rushlight._names.missing import names_missing_from
from rushlight.fx import traceback as fx_traceback
from rushlight.fx._patching import listen_while_alive
from rushlight.fx._symbolic_trace import Tracer
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Argument, Node, Target, map_aggregate, map_arg
from rushlight.fx.proxy import Proxy
from rushlight.nn import Module

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a GraphModule Node by Node. Subclasses replace the methods named after kinds of Nodes,
    or run_node, to look at values or to do something else with a kind.

    garbage_collect_values: a value goes when the last Node that uses it has run.

    Arguments:
        module: the GraphModule.
        garbage_collect_values: as said above.
        graph: the Graph to run; None is the module's.

    Example:
        >>> def f(x):
        ...     return rl.relu(x) + 1
        >>> gm = rl.fx.symbolic_trace(f)
        >>> class Show(rl.fx.Interpreter):
        ...     def run_node(self, n):
        ...         print(n.op, n.name)
        ...         return super().run_node(n)
        >>> Show(gm, garbage_collect_values=False).run(rl.tensor([-1.0]))
        placeholder x
        call_function relu
        call_function add
        output output
        tensor([1.])
    """

    def __init__(
        self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        self.module = module
        self.graph: Graph = graph if graph is not None else module.graph
        self.submodules = dict(module.named_modules())
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        if garbage_collect_values:
            seen: set[Node] = set()
            for node in reversed(self.graph.nodes):
                for used in node.all_input_nodes:
                    if used not in seen:
                        seen.add(used)
                        self.user_to_last_uses.setdefault(node, []).append(used)

    def run(
        self, *args: Any, initial_env: dict[Node, Any] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:  # fmt: skip
        """Runs the graph.

        initial_env: values of Nodes that are known already. enable_io_processing: containers are
        taken apart and built as the module's code does it.
        """
        self.env = initial_env if initial_env is not None else {}
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter: Iterator[Any] = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    _say_where(error, node)
                raise
            for used in self.user_to_last_uses.get(node, ()):
                del self.env[used]
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """run with the inputs in a list, which is emptied, so that they may go early."""
        args = list(args_list)
        args_list.clear()
        env: dict[Node, Any] = {}
        for node in self.graph.nodes:
            if node.op == "placeholder":
                env[node] = args[len(env)]
        args.clear()
        return self.run(initial_env=env)

    @contextmanager
    def _set_current_node(self, node: Node) -> Iterator[None]:
        with fx_traceback.set_current_meta(node):
            yield

    def run_node(self, n: Node) -> Any:
        """The value of a Node; calls the method of its kind."""
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    # ---- one method per kind

    def placeholder(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The next input, or the default value."""
        if not isinstance(target, str):
            raise AssertionError(f"Expected target to be a string, but got {type(target)}")
        if target.startswith("**"):
            return dict(self.args_iter)
        if target.startswith("*"):
            return list(self.args_iter)
        for value in self.args_iter:
            return value
        if args:
            return args[0]
        raise RuntimeError(f"Interpreter: the argument {target} is missing")

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """An attribute of the module."""
        return self.fetch_attr(target)  # type: ignore[arg-type]

    def call_function(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The result of a function."""
        if isinstance(target, str):
            raise AssertionError(f"Expected target to be a callable, but got {target!r}")
        return target(*args, **kwargs)

    def call_method(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The result of a method of args[0]."""
        return getattr(args[0], target)(*args[1:], **kwargs)  # type: ignore[arg-type]

    def call_module(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The result of a submodule."""
        return self.fetch_attr(target)(*args, **kwargs)  # type: ignore[arg-type]

    def output(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """What the graph returns."""
        return args[0]

    # ---- helpers

    def fetch_attr(self, target: str) -> Any:
        """The attribute of the module under a dotted name."""
        found: Any = self.module
        for i, part in enumerate(target.split(".")):
            if not hasattr(found, part):
                raise RuntimeError(
                    f"Node referenced nonexistent target {'.'.join(target.split('.')[: i + 1])}"
                )
            found = getattr(found, part)
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The values of a Node's arguments."""
        args = self.map_nodes_to_values(n.args, n)
        kwargs = self.map_nodes_to_values(n.kwargs, n)
        return args, kwargs

    def map_nodes_to_values(self, args: Argument, n: Node) -> Argument:
        """An argument with values in the place of Nodes."""

        def load(used: Node) -> Any:
            if used not in self.env:
                raise RuntimeError(
                    f"Interpreter: {n} uses {used}, which was not computed before it; Graph.lint() "
                    "says more"
                )
            return self.env[used]

        return map_arg(args, load)


def _say_where(error: Exception, node: Node) -> None:
    """Adds the Node, and the program's line if it is known, to the error's text."""
    text = f"While executing {node.format_node()}"
    if node.stack_trace:
        text += f"\nOriginal traceback:\n{node.stack_trace}"
    if len(error.args) <= 1:
        before = f"{error.args[0]}\n\n" if error.args else ""
        error.args = (before + text,)


class _TransformerTracer(Tracer):
    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        listen_while_alive(self)
        self.tensor_attrs: dict[Any, str] = {}

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return True


class Transformer(Interpreter):
    """Makes a new GraphModule of a graph: the methods see Proxies, and what they do is recorded.

    Arguments:
        module: the GraphModule, which stays as it is.

    Example:
        >>> def f(x):
        ...     return rl.relu(x) + 1
        >>> gm = rl.fx.symbolic_trace(f)
        >>> class Tanh(rl.fx.Transformer):
        ...     def call_function(self, target, args, kwargs):
        ...         target = rl.tanh if target is rl.relu else target
        ...         return super().call_function(target, args, kwargs)
        >>> Tanh(gm).transform()(rl.zeros(2))
        tensor([1., 1.])
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph(tracer_cls=module.graph._tracer_cls)
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _TransformerTracer(self.new_graph)
        self.tracer.root = module

    def placeholder(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Proxy:
        default = next(iter(args), inspect.Signature.empty)
        given = () if default is inspect.Signature.empty else (default,)
        return self.tracer.create_proxy("placeholder", target, given, {})

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        module = self.fetch_attr(target)  # type: ignore[arg-type]
        self.tracer.submodule_paths = {m: name for name, m in self.module.named_modules()}
        return self.tracer.call_module(module, module.forward, args, kwargs)

    def call_function(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The new module."""
        with fx_traceback.preserve_node_meta():
            result = self.run(enable_io_processing=False)
        if result is not None:
            if self.new_graph._root._prev.op != "output":
                types = [node.type for node in self.graph.nodes if node.op == "output"]
                self.new_graph.output(
                    map_aggregate(result, lambda a: a.node if isinstance(a, Proxy) else a),
                    types[0] if types else None,
                )
        return GraphModule(self.module, self.new_graph)


__getattr__ = names_missing_from(__name__)
