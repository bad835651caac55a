"""From programs to graphs: a function or module is called with Proxies, and what it does with them
is recorded."""

from __future__ import annotations

import builtins
import functools
import inspect
import math
import operator
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from types import FunctionType as FunctionType
from types import ModuleType
from typing import Any, TypeVar

from rushlight._C import Tensor
from rushlight._names.missing import names_missing_from
from rushlight.fx._codegen import PyTreeCodeGen, PyTreeInfo
from rushlight.fx._compatibility import compatibility as compatibility
from rushlight.fx._patching import Patcher as _Patcher
from rushlight.fx._patching import wrapped_function, wrapped_method
from rushlight.fx._signatures import hints_of, with_stars
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Argument
from rushlight.fx.proxy import (
    ParameterProxy,
    Proxy,
    Scope,
    ScopeContextManager,
    TracerBase,
    find_proxy,
)  # fmt: skip
from rushlight.nn import Module, Parameter, Sequential
from rushlight.nn.modules.module import use_slots
from rushlight.utils import _pytree as pytree

__all__ = ["PH", "ProxyableClassMeta", "Tracer", "is_fx_tracing", "symbolic_trace", "wrap"]

_T = TypeVar("_T")


class ScriptObject:
    """Objects of classes written in C++ for TorchScript; there are none."""


_orig_module_call = Module.__call__
_orig_module_getattr = Module.__getattr__
_tracing_threads: dict[int, int] = {}  # {thread: how many traces are under way there}
# (globals of a module, name): functions that are recorded as one call.
_wrapped_fns_to_patch: dict[tuple[int, str], dict[str, Any]] = {}
_wrapped_methods_to_patch: list[tuple[type, str]] = []
_proxyable_classes: dict[type, None] = {}


class PHBase:
    """In concrete_args: here an input stays open."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """An open input with something to remember about it."""

    def __init__(self, ph_key: str | None = None) -> None:
        super().__init__()
        self.ph_key = ph_key


def is_fx_tracing() -> bool:
    """Whether this thread is tracing a program symbolically."""
    return threading.get_ident() in _tracing_threads


is_fx_symbolic_tracing = is_fx_tracing


class ProxyableClassMeta(type):
    """The metaclass of classes whose objects may be made of Proxies: making one is recorded."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy(*args, kwargs) if is_fx_tracing() else None
        if proxy is None:
            return super().__call__(*args, **kwargs)
        return proxy.tracer.create_proxy("call_function", cls, args, kwargs)


class Tracer(TracerBase):
    """Makes the Graph of a function or module. Subclasses say what is recorded as one step.

    autowrap_modules, autowrap_functions: functions that are recorded when they get a Proxy (those
    of math are). param_shapes_constant: shapes of parameters are numbers, not Proxies.

    Arguments:
        autowrap_modules, autowrap_functions: as said above.
        param_shapes_constant: as said above.

    Example:
        >>> class Whole(rl.fx.Tracer):
        ...     def is_leaf_module(self, m, module_qualified_name):
        ...         return isinstance(m, nn.Sequential)
        >>> class Net(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.body = nn.Sequential(nn.ReLU(), nn.Tanh())
        ...     def forward(self, x):
        ...         return self.body(x)
        >>> [node.target for node in Whole(autowrap_functions=()).trace(Net()).nodes]
        ['x', 'body', 'output']
        >>> [node.target for node in rl.fx.Tracer().trace(Net()).nodes]
        ['x', 'body.0', 'body.1', 'output']
    """

    def __init__(
        self, autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        functions = {
            id(value)
            for module in autowrap_modules
            for name, value in module.__dict__.items()
            if not name.startswith("_") and callable(value)
        }
        self._autowrap_function_ids = functions | {id(function) for function in autowrap_functions}
        self._autowrap_search: list[ModuleType] = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack: OrderedDict[str, tuple[str, Any]] = OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope: dict[str, tuple[str, type]] = {}

    # ---- what subclasses may change

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a module is recorded as one call: those of nn are, but for Sequential."""
        return m.__module__.startswith(
            ("rushlight.nn", "rushlight.ao.nn", "torch.nn", "torch.ao.nn")
        ) and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """The dotted name of a submodule of the root."""
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
            if path is None:
                raise NameError("the module is no part of the traced one: register it in __init__ "
                                f"of the traced module ({type(mod).__name__})")  # fmt: skip
            return path
        for name, found in self.root.named_modules():
            if found is mod:
                return name
        raise NameError("the module is not a part of the traced one")

    def call_module(
        self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Called for every call of a module: records it, or calls forward to trace into it."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))):
            calls = self.num_calls.get(path, 0)
            key = f"{path}@{calls}" if calls else path
            self.module_stack[key] = (path, type(m))
            self.num_calls[path] = calls + 1
            try:
                if self.is_leaf_module(m, path):
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
            finally:
                self.module_stack.pop(key, None)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """Called for what modules hold: parameters become Proxies, and buffers if
        proxy_buffer_attributes is set."""
        if isinstance(attr_val, Parameter):
            return self._proxy_for(attr_val, self.root.named_parameters(), parameter_proxy_cache)
        if self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            return self._proxy_for(attr_val, self.root.named_buffers(), parameter_proxy_cache)
        return attr_val

    def _proxy_for(self, value: Any, named: Any, cache: dict[str, Proxy]) -> Any:
        for name, found in named:
            if found is value:
                if name not in cache:
                    options: dict[str, Any] = {}  # subclasses may not know the keyword
                    if self.param_shapes_constant:
                        options["proxy_factory_fn"] = functools.partial(
                            _parameter_proxy, self, name, value
                        )
                    cache[name] = self.create_proxy("get_attr", name, (), {}, **options)
                return cache[name]
        return value

    def create_arg(self, a: Any) -> Argument:
        """A value as Nodes keep it. Parameters, buffers and modules of the root are found by their
        names; other tensors become attributes of the result."""
        if isinstance(a, Parameter):
            for name, parameter in self.root.named_parameters():
                if parameter is a:
                    return self.create_node("get_attr", name, (), {})
        if isinstance(a, Module):
            for name, module in self.root.named_modules():
                if module is a:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("a module is an argument, but it is no submodule of what is traced: "
                            f"{type(a).__name__}")  # fmt: skip
        if isinstance(a, Tensor):
            for name, buffer in self.root.named_buffers():
                if buffer is a:
                    return self.create_node("get_attr", name, (), {})
            name = self.tensor_attrs.get(a)
            if name is None:
                name = self.get_fresh_qualname("_tensor_constant")
                self.tensor_attrs[a] = name
                setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        if type(a) in _proxyable_classes or isinstance(type(a), ProxyableClassMeta):
            name = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
            setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)

    def get_fresh_qualname(self, prefix: str) -> str:
        """A name that the root does not have yet."""
        number = 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        return f"{prefix}{number}"

    # ---- tracing

    def trace(
        self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
    ) -> Graph:
        """The graph of a module's forward, or of a function.

        concrete_args: values that inputs have; containers with PH in them stay open there.
        """
        if isinstance(root, Module):
            self.root = root
            if not hasattr(type(root), self.traced_func_name):
                raise AssertionError(f"traced_func_name={self.traced_func_name} doesn't exist in "
                                     f"{type(root).__name__}")  # fmt: skip
            function = getattr(type(root), self.traced_func_name)
            self.root_module_name = type(root).__name__
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        else:
            self.root, function = Module(), root
        if not hasattr(function, "__code__") and not isinstance(root, Module):
            raise AssertionError(f"Expected FunctionType, got {type(function)}: a Module or a "
                                 "function written in Python is traced")  # fmt: skip
        self.graph = Graph(tracer_cls=type(self))
        code = getattr(function, "__code__", None)
        if code is not None:
            self.graph._co_fields = {
                "co_name": code.co_name, "co_filename": code.co_filename,
                "co_firstlineno": code.co_firstlineno,
            }  # fmt: skip
        # Tensors that are attributes, but neither parameters nor buffers.
        self.tensor_attrs: dict[Any, str] = {}
        for name, module in self.root.named_modules():
            for attr, value in module.__dict__.items():
                if isinstance(value, Tensor):
                    self.tensor_attrs[value] = f"{name}.{attr}" if name else attr
        thread = threading.get_ident()
        _tracing_threads[thread] = _tracing_threads.get(thread, 0) + 1
        try:
            function, args = self.create_args_for_root(
                function, isinstance(root, Module), concrete_args
            )
            with _Patcher() as patcher:
                self._patch(patcher, function)
                result = _trace_root(function, args)
            returned = None
            if not isinstance(self.graph._codegen, PyTreeCodeGen):
                returned = self._hints.get("return")
            self.create_node("output", "output", (self.create_arg(result),), {}, type_expr=returned)
        finally:
            self.submodule_paths = None
            use_slots()
            _tracing_threads[thread] -= 1
            if not _tracing_threads[thread]:
                del _tracing_threads[thread]
        return self.graph

    def _patch(self, patcher: _Patcher, function: Callable[..., Any]) -> None:
        """Calls of modules, their attributes and wrapped functions come to this tracer."""
        thread = threading.get_ident()
        before_call, before_getattr = Module.__call__, Module.__getattr__
        cache: dict[str, Proxy] = {}

        @functools.wraps(before_getattr)
        def module_getattr(mod: Module, attr: str) -> Any:
            value = before_getattr(mod, attr)
            if threading.get_ident() != thread:
                return value
            return self.getattr(attr, value, cache)

        @functools.wraps(before_call)
        def module_call(mod: Module, *args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != thread:
                return before_call(mod, *args, **kwargs)

            def forward(*args: Any, **kwargs: Any) -> Any:
                return before_call(mod, *args, **kwargs)

            code = getattr(type(mod).forward, "__globals__", None)
            if code is not None:
                _autowrap_check(patcher, code, self._autowrap_function_ids)
            return self.call_module(mod, forward, args, kwargs)

        patcher.patch_method(Module, "__getattr__", module_getattr, deduplicate=False)
        patcher.patch_method(Module, "__call__", module_call, deduplicate=False)
        _patch_wrapped_functions(patcher)
        space = getattr(inspect.unwrap(function), "__globals__", None)
        if space is not None:
            _autowrap_check(patcher, space, self._autowrap_function_ids)
        for module in self._autowrap_search:
            _autowrap_check(patcher, module.__dict__, self._autowrap_function_ids)

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Callable[..., Any], list[Any]]:  # fmt: skip
        """The function to call, and the Proxies to call it with."""
        self._hints = hints_of(root_fn)
        signature = inspect.signature(root_fn)
        names = list(signature.parameters)
        args: list[Any] = []
        if is_module:
            if not names:
                raise RuntimeError(
                    "a forward that takes *args only has no name for the module itself"
                )
            args.append(self.root)
            names = names[1:]
        if isinstance(concrete_args, tuple):
            if len(names) != len(concrete_args):
                raise RuntimeError(
                    f"Tracing expected {len(names)} arguments but got {len(concrete_args)} "
                    "concrete arguments"
                )
            concrete_args = dict(zip(names, concrete_args, strict=True))
        fixed: dict[str, Any] = concrete_args or {}
        keywords: list[tuple[str | None, Any]] = []
        for name in names:
            parameter = signature.parameters[name]
            if parameter.kind is parameter.VAR_POSITIONAL:
                args.append(self._proxy_placeholder(f"*{name}", fixed, parameter))
            elif parameter.kind is parameter.VAR_KEYWORD:
                keywords.append((None, self._proxy_placeholder(f"**{name}", fixed, parameter)))
            elif parameter.kind is parameter.KEYWORD_ONLY:
                keywords.append((name, self._proxy_placeholder(name, fixed, parameter)))
            else:
                args.append(self._proxy_placeholder(name, fixed, parameter))
        varargs = [signature.parameters[n].kind is inspect.Parameter.VAR_POSITIONAL for n in names]
        call = with_stars(root_fn, varargs.index(True) + is_module if any(varargs) else None,
                           keywords)  # fmt: skip
        if concrete_args is None or not any(_has_containers(v) for v in fixed.values()):
            return call, args
        return self._with_pytree(call, args, names, is_module)

    def _with_pytree(
        self, call: Callable[..., Any], args: list[Any], names: list[str], is_module: bool
    ) -> tuple[Callable[..., Any], list[Any]]:
        """The inputs as one flat list; the graph's code takes containers apart and builds them."""
        own = args[:1] if is_module else []
        flat, in_spec = pytree.tree_flatten(tuple(args[1:] if is_module else args))
        self.graph._codegen = codegen = PyTreeCodeGen(PyTreeInfo(names, in_spec, None))

        def flatten_fn(*leaves: Any) -> Any:
            result = call(*own, *pytree.tree_unflatten(list(leaves), in_spec))
            out, out_spec = pytree.tree_flatten(result)
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return out

        flatten_fn.__wrapped__ = call  # type: ignore[attr-defined]
        return flatten_fn, list(flat)

    def _proxy_placeholder(
        self, name: str, concrete_args: dict[str, Any], parameter: inspect.Parameter
    ) -> Any:
        plain = name.lstrip("*")
        if plain in concrete_args:
            return self._concrete(plain, concrete_args[plain], parameter)
        default = () if parameter.default is parameter.empty else (parameter.default,)
        default = default if name == plain else ()
        return self.create_proxy("placeholder", name, default, {}, type_expr=self._hints.get(plain))

    def _concrete(self, name: str, value: Any, parameter: inspect.Parameter) -> Any:
        """A fixed argument: a placeholder all the same, which must have that value at each call."""
        count = 0

        def replace(leaf: Any) -> Any:
            nonlocal count
            count += 1
            default = () if parameter.default is parameter.empty else (parameter.default,)
            if isinstance(leaf, PHBase) and value is leaf:
                return self.create_proxy("placeholder", name, default, {})
            made = self.create_proxy("placeholder", f"{name}_{count}", default, {})
            if isinstance(leaf, PHBase):
                if isinstance(leaf, PHWithMeta) and leaf.ph_key is not None:
                    made.node.meta["ph_key"] = leaf.ph_key
                return made
            from rushlight._functions.checks import _assert

            if leaf is None:
                text = f"{name} was fixed to None when this was traced"
                self.create_proxy("call_function", _assert_is_none, (made, text), {})
            elif isinstance(leaf, (bool, int, float)):
                text = f"{name} was fixed to {leaf} when this was traced"
                self.create_proxy("call_function", _assert, (operator.eq(made, leaf), text), {})
            elif isinstance(leaf, type(None)) or not isinstance(leaf, (str, Tensor)):
                import warnings

                warnings.warn(
                    f"{name} is fixed to what concrete_args gave; calls with another value are not "
                    "noticed",
                    stacklevel=3,
                )
            return leaf

        return pytree.tree_map(replace, value)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        import copy

        new = type(self).__new__(type(self))
        for key, value in self.__dict__.items():
            if key == "_autowrap_search":  # modules are not copied
                new.__dict__[key] = list(value)
            else:
                new.__dict__[key] = copy.deepcopy(value, memo)
        return new


def _parameter_proxy(tracer: Tracer, name: str, value: Any, node: Any) -> ParameterProxy:
    return ParameterProxy(tracer, node, name, value)


def _trace_root(function: Callable[..., Any], args: list[Any]) -> Any:
    """The call that is traced; stack traces of Nodes end here."""
    return function(*args)


def _has_containers(value: Any) -> bool:
    return not isinstance(value, PHBase) and pytree._node(value) is not None


def _assert_is_none(value: object, msg: str) -> None:
    if value is not None:
        raise AssertionError(msg)


# ---- functions that are recorded as one call


def _patch_name(patcher: _Patcher, space: dict[str, Any], name: str) -> None:
    orig_fn = space[name] if name in space else getattr(builtins, name, None)
    if orig_fn is not None:
        patcher.patch(space, name, wrapped_function(orig_fn))


def _patch_wrapped_functions(patcher: _Patcher) -> None:
    for (_, name), space in list(_wrapped_fns_to_patch.items()):
        _patch_name(patcher, space, name)
    for cls, name in _wrapped_methods_to_patch:
        patcher.patch_method(cls, name, wrapped_method(cls, name))


def _autowrap_check(patcher: _Patcher, frame_dict: dict[str, Any], function_ids: set[int]) -> None:
    """Wraps the functions with these ids among the names of a module, the first time it is seen."""
    if not patcher.visit_once(frame_dict):
        return
    for name, value in list(frame_dict.items()):
        if not name.startswith("_") and callable(value) and id(value) in function_ids:
            patcher.patch(frame_dict, name, wrapped_function(value))
    for name in frame_dict.get("__fx_wrapped__", ()):
        _patch_name(patcher, frame_dict, name)


def wrap(fn_or_name: _T) -> _T:
    """Calls of this function with Proxies are recorded as one step, and not traced into.

    Call it at the top level of the module whose code calls the function, with the function or its
    name (``fx.wrap("len")``), or use it as a decorator there.

    Arguments:
        fn_or_name: the function, or its name.

    Example:
        >>> @rl.fx.wrap
        ... def checked(x):
        ...     return x if x.sum() > 0 else -x
        >>> gm = rl.fx.symbolic_trace(lambda x: checked(x) + 1)
        >>> [node.name for node in gm.graph.nodes]
        ['x', 'checked', 'add', 'output']
        >>> gm(rl.tensor([-3.0]))
        tensor([4.])
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("wrap: expected a function or its name")
    name: str = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__  # type: ignore
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap: call it at the top of a module, not inside a function")
    if frame.f_code.co_filename.startswith("<eval_with_key>"):
        # A GraphModule's code: it says so itself, and no table keeps it alive.
        frame.f_globals.setdefault("__fx_wrapped__", []).append(name)
    else:
        _wrapped_fns_to_patch[(id(frame.f_globals), name)] = frame.f_globals
    return fn_or_name


def symbolic_trace(
    root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
) -> GraphModule:
    """A GraphModule that does what the module or function does.

    Data-dependent control flow cannot be traced; concrete_args fixes arguments that decide.

    Arguments:
        root: a module or a function.
        concrete_args: {name of an argument: its value}, which is then part of the program. Calls
            have to give the same.

    Example:
        >>> def f(x, double):
        ...     return x * 2 if double else x
        >>> gm = rl.fx.symbolic_trace(f, concrete_args={"double": True})
        >>> [node.name for node in gm.graph.nodes]
        ['x', 'double_1', 'eq', '_assert', 'mul', 'output']
        >>> gm(rl.tensor([1.0, 2.0]), True)
        tensor([2., 4.])
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)


__getattr__ = names_missing_from(__name__)
