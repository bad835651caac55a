"""A step of a Graph: what is called with which arguments, and who uses the result."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from rushlight._C import Tensor
from rushlight._names.missing import names_missing_from
from rushlight.fx._naming import get_qualified_name, type_repr
from rushlight.fx.immutable_collections import immutable_dict, immutable_list

if TYPE_CHECKING:
    from rushlight.fx.graph import Graph
    from rushlight.fx.operator_schemas import ArgsKwargsPair
    from rushlight.nn import Module

__all__ = ["Argument", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg"]

Target = Callable[..., Any] | str
# A Node, a number, text, dtype, device ..., None, or tuples, lists, dicts and slices of those.
Argument = Any
BaseArgumentTypes = Any
_F = TypeVar("_F", bound=Callable[..., Any])

_legal_ops = frozenset(
    ["placeholder", "get_attr", "call_function", "call_module", "call_method", "output", "root"]
)
_get_qualified_name = get_qualified_name
_type_repr = type_repr


def _own_effects() -> set[Any]:
    import rushlight

    names = ("_assert", "_assert_async", "manual_seed", "set_grad_enabled", "seed")
    found = {getattr(rushlight, name, None) for name in names}
    return {builtins.print, builtins.setattr, *found} - {None}


class _Effects(set):
    """Functions that are called for what they do; filled when first asked."""

    def __init__(self) -> None:
        super().__init__()
        self._complete = False

    def __contains__(self, item: Any) -> bool:
        if not self._complete:
            self._complete = True
            self.update(_own_effects())
        return super().__contains__(item)


_side_effectful_functions: set[Any] = _Effects()


def has_side_effect(fn: _F) -> _F:
    """Calls of this function stay in graphs although nobody uses their results.

    Arguments:
        fn: the function, which comes back.

    Example:
        >>> @rl.fx.has_side_effect
        ... def log(x):
        ...     return None
        >>> graph = rl.fx.Graph()
        >>> x = graph.placeholder("x")
        >>> node = graph.call_function(log, (x,))
        >>> _ = graph.output(x)
        >>> graph.eliminate_dead_code(), node.is_impure()
        (False, True)
    """
    _side_effectful_functions.add(fn)
    return fn


def map_arg(a: Argument, fn: Callable[[Node], Argument]) -> Argument:
    """a, with fn called on every Node in it; containers come back immutable.

    Arguments:
        a: an argument of a Node: a Node, a number, or tuples, lists, dicts and slices of such.
        fn: what takes the place of a Node.

    Example:
        >>> graph = rl.fx.Graph()
        >>> x = graph.placeholder("x")
        >>> rl.fx.map_arg((x, 2, {"key": x}), lambda node: node.name)
        ('x', 2, {'key': 'x'})
    """
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def map_aggregate(a: Argument, fn: Callable[[Argument], Argument]) -> Argument:
    """a, with fn called on everything in it that is no container; these come back immutable."""
    if isinstance(a, tuple):
        items = [map_aggregate(item, fn) for item in a]
        if hasattr(a, "_fields"):
            return type(a)(*items)
        # torch.Size and other subclasses stay what they are as long as they can hold the items.
        return tuple(items)
    if isinstance(a, list):
        return immutable_list(map_aggregate(item, fn) for item in a)
    if isinstance(a, dict):
        return immutable_dict((key, map_aggregate(item, fn)) for key, item in a.items())
    if isinstance(a, slice):
        return slice(*(map_aggregate(item, fn) for item in (a.start, a.stop, a.step)))
    return fn(a)


def _format_arg(arg: Any, max_list_len: float = float("inf")) -> str:
    """An argument as graphs are printed."""
    if isinstance(arg, (list, tuple)) and not hasattr(arg, "_fields"):
        shown = [_format_arg(a) for i, a in enumerate(arg) if i < max_list_len]
        if len(arg) > len(shown):
            shown.append(f"...[total_len={len(arg)}]")
        if isinstance(arg, list):
            return f"[{', '.join(shown)}]"
        return f"({', '.join(shown)}{',' if len(arg) == 1 else ''})"
    if isinstance(arg, dict):
        return f"{{{', '.join(f'{key}: {_format_arg(a)}' for key, a in arg.items())}}}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


class Node:
    """One step of a Graph.

    op says what kind: ``placeholder`` (an input), ``get_attr`` (a parameter, buffer or constant),
    ``call_function``, ``call_module``, ``call_method`` (target is the name, args[0] the object) or
    ``output``. Assign args and kwargs as a whole: the users of other nodes follow.

    Arguments:
        graph: the Graph that it is part of.
        name: its name, which is that of the value in the code.
        op: the kind, as said above.
        target: what is called, or the name of an input, attribute or method.
        args: its arguments; Nodes among them stand for their values.
        kwargs: its keyword arguments.
        return_type: the type of its value, for the code.

    Example:
        >>> def f(x):
        ...     return rl.relu(x) + 1
        >>> gm = rl.fx.symbolic_trace(f)
        >>> for node in gm.graph.nodes:
        ...     print(node.op, node.name, node.args)
        placeholder x ()
        call_function relu (x,)
        call_function add (relu, 1)
        output output (add,)
        >>> graph = rl.fx.Graph()
        >>> rl.fx.Node(graph, "x", "placeholder", "x", (), {}, return_type=rl.Tensor).format_node()
        '%x : rushlight.Tensor [num_users=0] = placeholder[target=x]'
    """

    _args: tuple[Argument, ...]
    _kwargs: dict[str, Argument]
    target: Any

    def __init__(
        self, graph: Graph, name: str, op: str, target: Target, args: tuple[Argument, ...],
        kwargs: dict[str, Argument], return_type: Any | None = None,
    ) -> None:  # fmt: skip
        if op not in _legal_ops:
            raise AssertionError(f"op '{op}' is not in _legal_ops: {sorted(_legal_ops - {'root'})}")
        if op == "call_function":
            if not callable(target):
                raise ValueError(
                    f"Node [name = '{name}'] target {target} has type {type(target).__name__} but "
                    "a Callable is expected"
                )
        elif not isinstance(target, str):
            raise ValueError(
                f"Node [name = '{name}'] target {target} has type {type(target).__name__} but a "
                "str is expected"
            )
        self.graph, self.name, self.op, self.target = graph, name, op, target
        self.users: dict[Node, None] = {}
        self._input_nodes: dict[Node, None] = {}
        self._prev = self._next = self
        self._erased = False
        self.type = return_type
        self.meta: dict[str, Any] = {}
        self._args, self._kwargs = (), {}
        self._set_arguments(args, kwargs)

    # ---- order

    @property
    def next(self) -> Node:
        """The Node after this one; after the last comes the graph's root."""
        return self._next

    def prepend(self, x: Node) -> None:
        """Puts a Node of the same graph before this one, wherever it stood."""
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is x:
            return
        x._remove_from_list()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x
        self.graph._order_changed()

    @property
    def prev(self) -> Node:
        """The Node before this one."""
        return self._prev

    def append(self, x: Node) -> None:
        """Puts a Node of the same graph after this one."""
        if self is not x:
            self._next.prepend(x)

    def _remove_from_list(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def __lt__(self, other: Node) -> bool:
        return self.graph._position(self) < self.graph._position(other)

    def __gt__(self, other: Node) -> bool:
        return self.graph._position(self) > self.graph._position(other)

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or self > other

    # ---- arguments

    @property
    def args(self) -> tuple[Argument, ...]:
        """The positional arguments. Assign a new tuple to change them."""
        return self._args

    @args.setter
    def args(self, a: tuple[Argument, ...]) -> None:
        self._set_arguments(a, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """The arguments by name. Assign a new dict to change them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: dict[str, Argument]) -> None:
        self._set_arguments(self._args, k)

    def _set_arguments(self, args: Any, kwargs: Any) -> None:
        args = tuple(args) if isinstance(args, list) else args
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise TypeError(
                f"Node {self.name}: args must be a tuple and kwargs a dict, got "
                f"{type(args).__name__} and {type(kwargs).__name__}"
            )
        inputs: dict[Node, None] = {}

        def note(node: Node) -> Node:
            inputs[node] = None
            return node

        new_args, new_kwargs = map_arg(args, note), map_arg(kwargs, note)
        for old in self._input_nodes:
            old.users.pop(self, None)
        self._args, self._kwargs, self._input_nodes = new_args, new_kwargs, inputs
        for node in inputs:
            node.users[self] = None

    @property
    def all_input_nodes(self) -> list[Node]:
        """The Nodes among args and kwargs, each once."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Replaces a positional argument."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Puts a positional argument before the idx-th."""
        if not 0 <= idx <= len(self.args):
            raise AssertionError(
                f"insert_arg: there is no place {idx} among {len(self.args)} arguments"
            )
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Replaces or adds an argument by name."""
        self.kwargs = {**self.kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """This Node uses another Node wherever it used old_input."""
        self._replace(old_input, new_input)

    def _replace(self, old: Node, new: Node) -> None:
        for hook in self.graph._hooks("_replace_hooks"):
            hook(old=old, new=new.name, user=self)

        def swap(node: Node) -> Node:
            return new if node is old else node

        self._set_arguments(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] | None = None, *,
        propagate_meta: bool = False,
    ) -> list[Node]:  # fmt: skip
        """All users of this Node use another one; returns those that were changed.

        delete_user_cb: asked for each user; those for which it is false stay as they are.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    f"replace_all_uses_with: {replace_with} has a meta of its own, which "
                    "propagate_meta would write over"
                )
            replace_with.meta.update(self.meta)
        changed = [user for user in self.users if delete_user_cb is None or delete_user_cb(user)]
        for user in changed:
            user._replace(self, replace_with)
        return changed

    # ---- what is known about it

    @property
    def stack_trace(self) -> str | None:
        """The lines of the program that made the Node, when they were recorded."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the Node does something besides computing its result."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            if self.target in _side_effectful_functions or self._writes():
                return True
            return impure_random and _draws_random_numbers(self.target)
        if self.op == "call_method":
            return self._writes()
        if self.op == "call_module":
            if self.graph.owning_module is None:
                raise AssertionError(
                    "is_impure: the graph belongs to no module, so that its modules are not known"
                )
            module = self.graph.owning_module.get_submodule(self.target)
            return bool(getattr(module, "_is_impure", False))
        return False

    def _writes(self) -> bool:
        """Whether the call changes an argument, by the names of such functions."""
        name = self.target if isinstance(self.target, str) else getattr(self.target, "__name__", "")
        if self.kwargs.get("inplace") is True or isinstance(self.kwargs.get("out"), Node):
            return True
        if name in ("setitem", "__setitem__", "iadd", "isub", "imul", "itruediv"):
            return True
        return name.endswith("_") and not name.endswith("__") and hasattr(Tensor, name)

    def normalized_arguments(
        self, root: Module, arg_types: tuple[Any] | None = None,
        kwarg_types: dict[str, Any] | None = None, normalize_to_only_use_kwargs: bool = False,
    ) -> ArgsKwargsPair | None:  # fmt: skip
        """The arguments with defaults filled in and, if wished, all by name; None where the
        signature is not known."""
        from rushlight.fx.operator_schemas import normalize_function, normalize_module

        if self.op == "call_function":
            return normalize_function(
                self.target, self.args, self.kwargs, arg_types, kwarg_types,
                normalize_to_only_use_kwargs,
            )  # fmt: skip
        if self.op == "call_module":
            return normalize_module(
                root, self.target, self.args, self.kwargs, normalize_to_only_use_kwargs
            )
        return None

    def __repr__(self) -> str:
        return self.name

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)
            self.graph._graph_namespace.reserve(self.name, self)

    @staticmethod
    def _pretty_print_target(target: Any) -> str:
        if isinstance(target, str):
            return target
        name = get_qualified_name(target)
        return name if "." in name else f"builtins.{name}"

    def format_node(
        self, placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None, *, include_tensor_metadata: bool = False,
    ) -> str | None:  # fmt: skip
        """The Node as a line of a printed graph.

        placeholder_names, maybe_return_typename: lists that take what belongs into the graph's
        first line instead; such Nodes then have no line of their own.
        """
        kind = f"{type_repr(self.type)} " if self.type else ""
        if self.op == "placeholder":
            if placeholder_names is not None:
                placeholder_names.append(self.name + (f" : {kind.strip()}" if kind else ""))
                return None
            default = f"(default={_format_arg(self.args[0])})" if self.args else ""
            return (
                f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}"
                f"[target={self.target}]{default}"
            )
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {kind.strip()}"
            return f"return {self.args[0]}"
        shown = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}"
        shown += f"[target={self._pretty_print_target(self.target)}]"
        if self.op != "get_attr":
            shown += f"(args = {_format_arg(self.args)}, kwargs = {_format_arg(self.kwargs)})"
        if include_tensor_metadata and "tensor_meta" in self.meta:
            shown += f"  # {self.meta['tensor_meta']}"
        return shown


def _draws_random_numbers(target: Any) -> bool:
    name = getattr(target, "__name__", "")
    return name in _RANDOM and getattr(target, "__module__", "").partition(".")[0] in (
        "rushlight",
        "torch",
    )


_RANDOM = frozenset(
    """bernoulli multinomial normal poisson rand rand_like randint randint_like randn randn_like
    randperm""".split()
)


def walk(root: Node, direction: str = "_next") -> Iterator[Node]:
    """The Nodes from the root around; Nodes may be erased and added meanwhile."""
    node = getattr(root, direction)
    while node is not root:
        following = getattr(node, direction)
        if not node._erased:
            yield node
            following = getattr(node, direction)
        node = following


__getattr__ = names_missing_from(__name__)
