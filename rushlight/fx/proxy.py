"""Stand-ins for values that are not known yet: what is done with them becomes Nodes."""

from __future__ import annotations

import copy
import operator
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from rushlight import _C
from rushlight._C import Size, Tensor
from rushlight._names.missing import names_missing_from
from rushlight.fx._frames import at_line, calling_frame, is_assert, unpacked_count, user_stack
from rushlight.fx._naming import MAGIC, REFLECTABLE
from rushlight.fx.immutable_collections import immutable_dict, immutable_list
from rushlight.fx.node import Argument, Node, Target
from rushlight.nn import Parameter
from rushlight.overrides import is_tensor_method_or_property

if TYPE_CHECKING:
    from rushlight.fx.graph import Graph

__all__ = [
    "Attribute", "GraphAppendingTracer", "ParameterProxy", "Proxy", "Scope",
    "ScopeContextManager", "TraceError", "TracerBase",
]  # fmt: skip

# Values that stand in graphs as they are.
base_types = (
    str, int, float, bool, complex, _C.dtype, Tensor, _C.device, _C.memory_format, _C.layout,
    type(None), type(...), type(NotImplemented), slice, range,
)  # fmt: skip
_SIMPLE = (str, int, float, bool, complex, type(None), type(...), type(NotImplemented), _C.dtype,
           _C.device, _C.memory_format, _C.layout)  # fmt: skip


class TraceError(ValueError):
    """The program asks for what is not known while it is traced."""


class Scope:
    """The module whose forward is being traced."""

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path = module_path
        self.module_type = module_type


class ScopeContextManager:
    """A with block inside another Scope."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._scope, self._outer = scope, copy.copy(scope)
        scope.module_path = current_scope.module_path
        scope.module_type = current_scope.module_type

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *args: object) -> None:
        self._scope.module_path = self._outer.module_path
        self._scope.module_type = self._outer.module_type


class TracerBase:
    """Makes Nodes of what Proxies are used for; Tracer adds modules and functions."""

    graph: Graph
    record_stack_traces: bool = False
    check_mutable_operations: bool = False  # kept for programs that set it; nothing is refused
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"
    scope: Scope
    module_stack: OrderedDict[str, tuple[str, Any]]
    node_name_to_scope: dict[str, tuple[str, type]]

    def create_node(
        self, kind: str, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Argument],
        name: str | None = None, type_expr: Any | None = None,
    ) -> Node:  # fmt: skip
        """Adds a Node to the graph."""
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        _take_over_meta(node)
        if kind not in ("placeholder", "output") and getattr(self, "module_stack", None):
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        if hasattr(self, "node_name_to_scope"):
            self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        return node

    def proxy(self, node: Node) -> Proxy:
        """What stands for a Node while the program runs; subclasses may make another."""
        return Proxy(node, self)

    def create_proxy(
        self, kind: str, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any],
        name: str | None = None, type_expr: Any | None = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:  # fmt: skip
        """Adds a Node for arguments as the program gave them, and returns its Proxy."""
        new_args, new_kwargs = self.create_arg(args), self.create_arg(kwargs)
        if not isinstance(new_args, tuple) or not isinstance(new_kwargs, dict):
            raise AssertionError("create_arg must make a tuple of a tuple and a dict of a dict")
        node = self.create_node(kind, target, new_args, new_kwargs, name, type_expr)
        if self.record_stack_traces and not node.stack_trace:
            node.stack_trace = "".join(traceback.format_list(user_stack()))
        return proxy_factory_fn(node) if proxy_factory_fn is not None else self.proxy(node)

    def create_arg(self, a: Any) -> Argument:
        """A value as Nodes keep it: Proxies become their Nodes, containers are looked into."""
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, _SIMPLE) and not hasattr(a, "__fx_create_arg__"):
            return a
        if isinstance(a, tuple):
            if hasattr(a, "_fields"):
                return type(a)(*(self.create_arg(item) for item in a))
            if type(a) is Size:
                return a
            return tuple(self.create_arg(item) for item in a)
        if isinstance(a, list):
            return immutable_list(self.create_arg(item) for item in a)
        if isinstance(a, dict):
            return immutable_dict(self._dict_item(key, item) for key, item in a.items())
        if isinstance(a, slice):
            return slice(*(self.create_arg(item) for item in (a.start, a.stop, a.step)))
        if isinstance(a, range):
            return range(*(self.create_arg(item) for item in (a.start, a.stop, a.step)))
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, (Node, Tensor)):
            return a
        if is_dataclass(a) and not isinstance(a, type):
            values = {field.name: self.create_arg(getattr(a, field.name)) for field in fields(a)}
            return self.create_node("call_function", type(a), (), values)
        if callable(a) and not isinstance(a, type) and hasattr(a, "__name__"):
            return a  # a function as an argument, of torch.utils.checkpoint for example
        import enum

        if isinstance(a, enum.Enum):
            return a
        raise NotImplementedError(
            f"argument of type: {type(a)}: a graph keeps numbers, text, dtypes, devices, tensors, "
            f"functions and containers of those{at_line()}"
        )

    def _dict_item(self, key: Any, value: Any) -> tuple[Any, Argument]:
        if _contains_proxy(key):
            raise RuntimeError(f"a dict among the arguments has the traced value {key} as a key")
        return key, self.create_arg(value)

    def to_bool(self, obj: Proxy) -> bool:
        """Called where the program needs a truth value; subclasses may answer."""
        raise TraceError(
            "control flow asks whether a traced value is true, and the value is "
            "not known while it is traced. Write torch.where for a choice between "
            "tensors, fix an argument with symbolic_trace(..., concrete_args={...}), or hide the "
            f"function with fx.wrap{at_line()}"
        )

    def iter(self, obj: Proxy) -> Iterator[Proxy]:
        """Called where the program iterates; the items of `a, b = proxy` are known to be two."""
        frame = calling_frame()
        count = unpacked_count(frame) if frame is not None else None
        if count is not None:
            return (operator.getitem(obj, i) for i in range(count))
        raise TraceError(
            "a traced value cannot be iterated, in a loop or by * and **: how many items there are "
            "is not known while the program is traced. Index it (x[0], x[1]), or unpack it to names"
            f"{at_line()}"
        )

    def keys(self, obj: Proxy) -> Proxy:
        """Called for proxy.keys(), which Python also asks for **proxy."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Adds to a graph that exists."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        _listen_for(self)
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self.node_name_to_scope = {}


class Proxy:
    """Stands for the value of a Node; what is done with it is recorded in the graph.

    Operators, methods, attributes, indexing and functions of the library are recorded. Truth
    values, lengths and iteration are not known while tracing and raise a TraceError.

    Arguments:
        node: the Node.
        tracer: the Tracer that records; None adds to the Node's graph.

    Example:
        >>> graph = rl.fx.Graph()
        >>> x = rl.fx.Proxy(graph.placeholder("x"), tracer=None)
        >>> rl.sin(x) * 2
        Proxy(mul)
        >>> [node.name for node in graph.nodes]
        ['x', 'sin', 'mul']
    """

    node: Node

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        if k in _NOT_RECORDED:  # what Python and the library look for in any object
            raise AttributeError(k)
        return Attribute(self, k)

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        new = type(self).__new__(type(self))
        for key, value in self.__dict__.items():
            try:
                new.__dict__[key] = copy.deepcopy(value, memo)
            except Exception:  # what cannot be copied is shared
                new.__dict__[key] = copy.copy(value)
        return new

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, d: dict[str, Any]) -> None:
        self.__dict__ = d

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Proxy]:
        return self.tracer.iter(self)

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts:
            frame = calling_frame()
            if frame is not None and is_assert(frame):
                self.tracer.create_proxy("call_function", assert_fn, (self,), {})
                return True
        return self.tracer.to_bool(self)

    def keys(self) -> Proxy:
        """The keys, recorded as a call of the method."""
        return self.tracer.keys(self)

    def __len__(self) -> NoReturn:
        raise RuntimeError(
            "len() of a traced value is not known; fx.wrap('len') at the top of the module records "
            "the call"
        )

    @classmethod
    def __torch_function__(
        cls, orig_method: Callable[..., Any], types: Any, args: Any = None, kwargs: Any = None
    ) -> Proxy:
        args, kwargs = tuple(args or ()), kwargs or {}
        tracer = _tracer_of(args, kwargs)
        name = getattr(orig_method, "__name__", "")
        if name == "einsum" and len(args) == 2 and isinstance(args[1], (list, tuple)):
            args = (args[0], *args[1])  # as PyTorch's function does before it asks
        if is_tensor_method_or_property(orig_method):
            return tracer.create_proxy("call_method", _METHODS.get(name, name), args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs)

    def __hash__(self) -> int:
        return id(self)


class Attribute(Proxy):
    """An attribute of a Proxy. It becomes a Node when used, so that x.relu() is one step."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        if self._node is None:
            args = (self.root, self.attr)
            self._node = self.tracer.create_proxy("call_function", getattr, args, {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """Stands for a parameter whose shape the program may know."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Parameter) -> None:
        super().__init__(node, tracer)
        if not isinstance(param, Tensor):
            raise AssertionError(f"expected a Parameter, got {type(param)}")
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Size:
        return self.param.shape

    def size(self, dim: int | None = None) -> Size | int:
        """The parameter's own size."""
        return self.param.size() if dim is None else self.param.size(dim)

    def dim(self) -> int:
        """How many dims the parameter has."""
        return self.param.dim()

    @property
    def ndim(self) -> int:
        return self.param.ndim

    def numel(self) -> int:
        """How many elements the parameter has."""
        return self.param.numel()

    def nelement(self) -> int:
        """How many elements the parameter has."""
        return self.param.numel()


def assert_fn(x: object) -> None:
    """An assert of the traced program."""
    assert x


# ---- operators

# How a Tensor's operator is called as a method, where a tensor that is no Proxy stands on the left.
_SAME_NAME = "add sub mul pow matmul eq ne lt gt le ge neg abs".split()
_METHODS = {f"__{name}__": name for name in _SAME_NAME} | {
    "__truediv__": "div", "__mod__": "remainder", "__iadd__": "add_", "__isub__": "sub_",
    "__imul__": "mul_", "__itruediv__": "div_",
}  # fmt: skip
# The library asks these of any object, to learn what kind it is; a Proxy is none of those kinds.
_NOT_RECORDED = frozenset(
    """__array__ __array_interface__ __array_struct__ __array_priority__ __array_ufunc__
    __array_function__ __cuda_array_interface__ __dlpack__ __dlpack_device__ __index__ __int__
    __float__ __complex__ __fx_create_arg__ __fspath__ __length_hint__ _fields __len__ __origin__
    __torch_dispatch__ __getstate__ __setstate__ __deepcopy__ __copy__ __reduce_ex__ __name__
    __qualname__ __module__ __wrapped__ __self__ __objclass__ __dataclass_fields__""".split()
)


def _operator_method(name: str, reflected: bool) -> Callable[..., Any]:
    function = getattr(operator, name)

    def call(self: Proxy, *others: Any) -> Proxy:
        if reflected and isinstance(others[0], Tensor):
            method = _METHODS.get(dunder, dunder)
            return self.tracer.create_proxy("call_method", method, (others[0], self), {})
        args = (others[0], self) if reflected else (self, *others)
        return _tracer_of(args, {}).create_proxy("call_function", function, args, {})

    dunder = f"__{name.strip('_')}__"
    call.__name__ = f"__r{name.strip('_')}__" if reflected else dunder
    call.__qualname__ = f"Proxy.{call.__name__}"
    return call


for _name in MAGIC:
    setattr(Proxy, f"__{_name.strip('_')}__", _operator_method(_name, False))
for _name in REFLECTABLE:
    setattr(Proxy, f"__r{_name.strip('_')}__", _operator_method(_name, True))


# ---- helpers


def _listen_for(tracer: TracerBase) -> None:
    from rushlight.fx._patching import listen_while_alive

    listen_while_alive(tracer)


def proxies_in(value: Any) -> Iterator[Proxy]:
    """The Proxies in a value and in its containers."""
    if isinstance(value, Proxy):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from proxies_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from proxies_in(item)
    elif isinstance(value, slice):
        yield from proxies_in((value.start, value.stop, value.step))


def find_proxy(*values: Any) -> Proxy | None:
    """The first Proxy among values and in their containers."""
    return next(proxies_in(values), None)


def _take_over_meta(node: Node) -> None:
    """What fx.traceback remembers about the Node that this one is made from."""
    from rushlight.fx import traceback as fx_traceback

    current = fx_traceback.get_current_meta()
    if current and node.op not in ("placeholder", "output"):
        for key, value in current.items():
            node.meta[key] = copy.copy(value)


def _contains_proxy(value: Any) -> bool:
    return isinstance(value, Node) or find_proxy(value) is not None


def _tracer_of(args: Any, kwargs: Any) -> TracerBase:
    tracers = {id(proxy.tracer): proxy.tracer for proxy in proxies_in((args, kwargs))}
    found = list(tracers.values())
    if len({id(tracer.graph) for tracer in found}) > 1:
        raise RuntimeError(f"Found multiple different tracers {found} while trying to trace "
                           "operations: the Proxies belong to different graphs")  # fmt: skip
    return found[0]


__getattr__ = names_missing_from(__name__)
