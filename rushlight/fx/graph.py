"""Programs as lists of Nodes."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rushlight._names.missing import names_missing_from
from rushlight.fx import _codegen
from rushlight.fx._codegen import CodeGen, PythonCode, TransformCodeFunc, code_of
from rushlight.fx._naming import Namespace as _Namespace
from rushlight.fx._naming import snake_case as _snake_case
from rushlight.fx.node import Argument, Node, Target, map_arg, walk

if TYPE_CHECKING:
    from rushlight.fx._symbolic_trace import Tracer
    from rushlight.fx.graph_module import GraphModule

__all__ = ["CodeGen", "Graph", "PythonCode"]


class _node_list:
    """The Nodes of a graph, forwards or backwards."""

    def __init__(self, graph: Graph, direction: str = "_next") -> None:
        if direction not in ("_next", "_prev"):
            raise AssertionError(
                f"a list of nodes goes to '_next' or to '_prev', not to {direction!r}"
            )
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        return walk(self.graph._root, self.direction)

    def __reversed__(self) -> _node_list:
        return _node_list(self.graph, "_next" if self.direction == "_prev" else "_prev")


class _InsertPoint:
    """Where new Nodes go; as a with block, only inside it."""

    def __init__(self, graph: Graph, new_insert: Callable[[Node], None]) -> None:
        self.graph = graph
        self.orig_insert, graph._insert = graph._insert, new_insert

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, type: type[BaseException] | None, value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:  # fmt: skip
        self.graph._insert = self.orig_insert


_NO_DEFAULT: Any = object()


class Graph:
    """A program: placeholders, calls, one output. GraphModule makes a module of it.

    New Nodes go to the end, or where inserting_before and inserting_after say.

    Arguments:
        owning_module: the GraphModule that it belongs to.
        tracer_cls: the class of the Tracer that made it.
        tracer_extras: what that Tracer keeps with it.

    Example:
        >>> graph = rl.fx.Graph(owning_module=None)
        >>> x = graph.placeholder("x")
        >>> _ = graph.output(graph.call_function(rl.neg, (x,)))
        >>> [node.op for node in graph.nodes]
        ['placeholder', 'call_function', 'output']
        >>> rl.fx.GraphModule({}, graph)(rl.tensor([1.0]))
        tensor([-1.])
    """

    def __init__(
        self, owning_module: GraphModule | None = None, tracer_cls: type[Tracer] | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._places: dict[Node, int] | None = None  # {Node: its place}, while it is right
        self._graph_namespace = _Namespace()
        self._owning_module = owning_module
        self._owners = 1 if owning_module is not None else 0
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen = CodeGen()
        self._co_fields: dict[str, Any] = {}

    # ---- the Nodes

    @property
    def owning_module(self) -> GraphModule | None:
        """The GraphModule that the graph belongs to; None when there are several."""
        return self._owning_module if self._owners < 2 else None

    @owning_module.setter
    def owning_module(self, mod: GraphModule | None) -> None:
        if mod is not None and mod is not self._owning_module:
            self._owners += 1
        self._owning_module = mod

    @property
    def nodes(self) -> _node_list:
        """All Nodes in order. Nodes may be added and erased while one goes through them."""
        return _node_list(self)

    def output_node(self) -> Node:
        """The Node that returns."""
        last = self._root._prev
        if last.op != "output":
            found = next((node for node in reversed(self.nodes) if node.op == "output"), None)
            if found is None:
                raise StopIteration("the graph has no output")
            raise AssertionError(f"Expected output node, got op={last.op}")
        return last

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The Nodes of a kind and, for calls of functions, of a target."""
        if op == "call_function" and target is None:
            raise AssertionError("find_nodes: name the function to look for")
        return [
            node
            for node in self.nodes
            if node.op == op and (target is None or node.target == target)
        ]

    def _order_changed(self) -> None:
        self._places = None

    def _position(self, node: Node) -> int:
        if self._places is None:
            self._places = {found: at for at, found in enumerate(self.nodes)}
        return self._places[node]

    def _hooks(self, kind: str) -> list[Callable[..., Any]]:
        module = self.owning_module
        return [] if module is None else module.__dict__.get(kind, [])

    # ---- making them

    def create_node(
        self, op: str, target: Target, args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None, name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:  # fmt: skip
        """Adds a Node of any kind at the place where Nodes go."""
        args, kwargs = () if args is None else args, {} if kwargs is None else kwargs
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise AssertionError("args must be a tuple and kwargs a dict")
        candidate = name if name is not None else self._target_to_str(target)
        name = self._graph_namespace.create_name(candidate, None)
        node = Node(self, name, op, target, args, kwargs, type_expr)
        self._graph_namespace.associate_name_with_obj(name, node)
        self._insert(node)
        self._len += 1
        self._order_changed()
        for hook in self._hooks("_create_node_hooks"):
            hook(node)
        return node

    def _target_to_str(self, target: Target | None) -> str:
        if callable(target):
            text = getattr(target, "__name__", type(target).__name__)
        else:
            text = str(target)
            if text.startswith("__") and text.endswith("__"):
                text = text[2:-2]
        return _snake_case(text)

    def placeholder(
        self, name: str, type_expr: Any | None = None, default_value: Any = _NO_DEFAULT
    ) -> Node:
        """An input. A name with one or two stars takes the arguments that are left."""
        args = () if default_value is _NO_DEFAULT else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any | None = None) -> Node:
        """A parameter, buffer or constant of the module, by its dotted name."""
        module = self.owning_module
        if module is not None and not _has_attr(module, qualified_name):
            warnings.warn(
                f"get_attr: the module of this graph has no {qualified_name!r}; add the submodule, "
                "parameter or buffer first",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self, module_name: str, args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None, type_expr: Any | None = None,
    ) -> Node:  # fmt: skip
        """A call of a submodule, by its dotted name."""
        module = self.owning_module
        if module is not None:
            module.get_submodule(module_name)  # says what is missing
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self, method_name: str, args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None, type_expr: Any | None = None,
    ) -> Node:  # fmt: skip
        """A call of a method of args[0]."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self, the_function: Callable[..., Any], args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None, type_expr: Any | None = None,
        name: str | None = None,
    ) -> Node:  # fmt: skip
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Argument, type_expr: Any | None = None) -> Node:
        """What the program returns."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(
        self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x
    ) -> Node:
        """A copy of another graph's Node. arg_transform: {its Nodes: ours}."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        new = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        new.meta = copy.copy(node.meta)
        return new

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False
    ) -> Argument | None:
        """Copies the Nodes of another graph to where Nodes go; returns what its output returned.

        val_map: Nodes of g that stand for Nodes here; the copies are added to it.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return result if not return_output_node else (result, node)
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        memo = {} if memo is None else memo
        new = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        memo[id(self)] = new
        new._codegen = copy.deepcopy(self._codegen, memo)
        copies: dict[Node, Node] = {}
        for node in self.nodes:
            made = new.create_node(
                node.op, node.target, map_arg(node.args, lambda n: copies[n]),
                map_arg(node.kwargs, lambda n: copies[n]), node.name, node.type,
            )  # fmt: skip
            made.meta = copy.copy(node.meta)
            memo[id(node)] = copies[node] = made
        return new

    # ---- changing them

    def erase_node(self, to_erase: Node) -> None:
        """Removes a Node that nobody uses."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in "
                f"the graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        for hook in self._hooks("_erase_node_hooks"):
            hook(to_erase)
        to_erase._remove_from_list()
        to_erase._erased = True
        self._len -= 1
        self._order_changed()
        to_erase._set_arguments((), {})

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """New Nodes go before n (None: to the start), for good or in a with block."""
        return _InsertPoint(
            self, self._root.append if n is None else self._own(n, "before").prepend
        )

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """New Nodes go right after n (None: to the end), for good or in a with block.

        Each goes right after n: the one that was made last comes first.
        """
        return _InsertPoint(self, self._root.prepend if n is None else self._own(n, "after").append)

    def _own(self, n: Node, where: str) -> Node:
        if n.graph is not self:
            raise AssertionError(f"Node to insert {where} is not in graph.")
        return n

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Removes what nobody uses and what has no effect; returns whether anything went."""
        self.lint()
        impure = is_impure_node or (lambda node: node.is_impure())
        dead = [node for node in reversed(self.nodes) if not self._is_needed(node, impure)]
        return bool(dead)

    def _is_needed(self, node: Node, impure: Callable[[Node], bool]) -> bool:
        if node.users or node.op in ("placeholder", "output") or impure(node):
            return True
        self.erase_node(node)
        return False

    def lint(self) -> None:
        """Raises where the graph is not well formed: order, users, names, targets."""
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            for used in node.all_input_nodes:
                if used.graph is not self:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' does not belong to this Graph, but "
                        "was used as an argument! If you are copying nodes from another graph, "
                        "make sure to use ``arg_transform`` on node_copy() to remap values\n"
                        f"{self}"
                    )
                if used not in seen:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' was used before it has been defined! "
                        "Please check that Nodes in the graph are topologically ordered\n"
                        f"{self}"
                    )
                if node not in used.users:
                    raise RuntimeError(f"Node '{node}' is not among the users of '{used}'")
            seen.add(node)
            names.add(node.name)
        if self.owning_module is not None:
            self._check_targets(self.owning_module)

    def _check_targets(self, module: GraphModule) -> None:
        from rushlight.nn import Module

        for node in self.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            found: Any = module
            for i, part in enumerate(node.target.split(".")):
                if not hasattr(found, part):
                    raise RuntimeError(
                        f"Node {node} target {node.target} references nonexistent attribute "
                        f"{part} of {'.'.join(node.target.split('.')[:i])}"
                    )
                found = getattr(found, part)
            if node.op == "call_module" and not isinstance(found, Module):
                raise RuntimeError(
                    f"Node {node} target {node.target} is called as a module but is a "
                    f"{type(found).__name__}"
                )

    # ---- as text

    def __str__(self) -> str:
        typename = [""]
        lines = [node.format_node(None, typename) for node in self.nodes]
        body = "\n".join(f"    {line}" for line in lines if line)
        return f"graph(){typename[0]}:" + (f"\n{body}" if body else "")

    def print_tabular(self) -> None:
        """Prints the Nodes as a table."""
        head = ["opcode", "name", "target", "args", "kwargs"]
        rows = [
            [str(x) for x in (node.op, node.name, node.target, node.args, node.kwargs)]
            for node in self.nodes
        ]
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
        for row in (head, ["-" * width for width in widths], *rows):
            print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)))

    def python_code(
        self, root_module: str, *, verbose: bool = False, include_stride: bool = False,
        include_device: bool = False, colored: bool = False, expanded_def: bool = False,
        record_func: bool = False, additional_meta: list[str] | None = None,
    ) -> PythonCode:  # fmt: skip
        """The program as the code of a function. root_module: what its module is called there."""
        namespace = _Namespace()
        for node in self.nodes:
            namespace.reserve(node.name, node)
        return code_of(
            self, root_module, namespace, verbose=verbose, include_stride=include_stride,
            include_device=include_device, colored=colored, expanded_def=expanded_def,
            record_func=record_func, additional_meta=additional_meta,
        )  # fmt: skip

    def set_codegen(self, codegen: CodeGen) -> None:
        """How the code is written from now on."""
        self._codegen = codegen

    def on_generate_code(
        self, make_transformer: Callable[[TransformCodeFunc | None], TransformCodeFunc]
    ) -> contextlib.AbstractContextManager[None]:
        """The lines of the code go through a function from now on, or inside a with block.

        make_transformer: given the function before (or None), returns the new one.
        """
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)

        @contextlib.contextmanager
        def undo() -> Iterator[None]:
            try:
                yield
            finally:
                self._codegen._body_transformer = before

        return undo()

    def process_inputs(self, *args: Any) -> Sequence[Any]:
        """The values of the placeholders, from the arguments of a call."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """What a call returns, from the value of the output."""
        return self._codegen.process_outputs(out)


def _has_attr(model: Any, attr_name: str) -> bool:
    """Whether a dotted name leads somewhere."""
    for name in attr_name.split("."):
        if not hasattr(model, name):
            return False
        model = getattr(model, name)
    return True


_BoxedCodeGen, _PyTreeCodeGen = _codegen.BoxedCodeGen, _codegen.PyTreeCodeGen
_PyTreeInfo = _codegen.PyTreeInfo

__getattr__ = names_missing_from(__name__)
