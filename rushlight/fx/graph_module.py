"""Modules whose forward is the code of a Graph."""

from __future__ import annotations

import contextlib
import copy
import itertools
import linecache
import os
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rushlight._C import Tensor
from rushlight._names.missing import names_missing_from
from rushlight.fx import _codegen
from rushlight.fx._codegen import PythonCode, PyTreeCodeGen, custom_builtins
from rushlight.fx._naming import attribute_path, get_qualified_name, package_name
from rushlight.fx.graph import Graph
from rushlight.fx.graph import _has_attr as _has_attr
from rushlight.nn import Module

__all__ = ["GraphModule", "reduce_graph_module"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
_numbers = itertools.count()
_HOOKS = ("_replace_hooks", "_create_node_hooks", "_erase_node_hooks", "_deepcopy_hooks")


# ---- code


def _exec_with_source(
    src: str, globals: dict[str, Any], co_fields: dict[str, Any] | None = None
) -> None:
    """Runs code whose lines tracebacks can show."""
    file = f"<eval_with_key>.{next(_numbers)}"
    if co_fields:
        file += f" from {co_fields['co_filename']}:{co_fields['co_firstlineno']} in "
        file += co_fields["co_name"]
    exec(compile(src, file, "exec", dont_inherit=True), globals)
    # Entries without a time are not looked for on disk; the entry goes when the function does.
    linecache.cache[file] = (len(src), None, src.splitlines(keepends=True), file)
    for made in globals.values():
        if getattr(getattr(made, "__code__", None), "co_filename", None) == file:
            weakref.finalize(made, linecache.cache.pop, file, None)


def _method_from_src(
    method_name: str, src: str, globals: dict[str, Any], co_fields: dict[str, Any] | None = None
) -> Callable[..., Any]:
    space = dict(globals)
    _exec_with_source(src, space, co_fields)
    return space[method_name]


def _forward_from_src(
    src: str, globals: dict[str, Any], co_fields: dict[str, Any] | None = None
) -> Callable[..., Any]:
    return _method_from_src("forward", src, globals, co_fields)


def _format_import_statement(name: str, obj: Any) -> str:
    builtins = custom_builtins()
    if name in builtins:
        return builtins[name].import_str
    if getattr(obj, "__name__", None) and not hasattr(obj, "__module__"):
        return f"import {obj.__name__} as {name}"  # a module
    module, _, attribute = get_qualified_name(obj).rpartition(".")
    if not module:
        return f"from builtins import {attribute} as {name}"
    first, *rest = attribute.split(".")
    return f"from {module} import {first} as {name}" + "".join(f".{part}" for part in rest)


def _format_import_block(globals: dict[str, Any]) -> str:
    return "\n".join(sorted({_format_import_statement(n, obj) for n, obj in globals.items()}))


# ---- attributes by dotted names


def _get_attr_via_attr_list(model: Any, attr_list: list[str]) -> Any:
    for name in attr_list:
        model = getattr(model, name)
    return model


def _get_attr(model: Any, attr_name: str) -> Any:
    return _get_attr_via_attr_list(model, attr_name.split("."))


def _del_attr(model: Any, attr_name: str) -> None:
    *path, last = attr_name.split(".")
    delattr(_get_attr_via_attr_list(model, path), last)


def _holder(module: Module, path: list[str]) -> Module:
    """The submodule at the path; plain Modules are made on the way."""
    for name in path:
        found = getattr(module, name, None)
        if found is None:
            found = Module()
            module.add_module(name, found)
        module = found
    return module


def _assign_attr(from_obj: Any, to_module: Module, target: str) -> None:
    """Puts an object under a dotted name. A tensor that is no Parameter becomes a buffer."""
    *path, last = target.split(".")
    holder = _holder(to_module, path)
    from rushlight.nn import Parameter

    if isinstance(from_obj, Tensor) and not isinstance(from_obj, Parameter):
        if last not in holder._buffers:
            holder.__dict__.pop(last, None)
        holder.register_buffer(last, from_obj)
    else:
        setattr(holder, last, from_obj)


def _copy_attr(from_module: Any, to_module: Module, target: str) -> None:
    """Puts the attribute of one module under the same dotted name of another."""
    *path, last = target.split(".")
    holder = from_module
    for name in path:
        found = getattr(holder, name, None)
        if found is None:
            return
        holder = found
    if not hasattr(holder, last):
        return
    from_obj = getattr(holder, last)
    persistent = last not in getattr(holder, "_non_persistent_buffers_set", ())
    if isinstance(from_obj, Tensor) and last in getattr(holder, "_buffers", {}) and not persistent:
        _holder(to_module, path).register_buffer(last, from_obj, persistent=False)
    else:
        _assign_attr(from_obj, to_module, target)


# ---- modules


class _CodeOnlyModule(Module):
    """The attributes of a GraphModule without its graph."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


def reduce_graph_module(body: dict[str, Any], import_block: str) -> Module:
    """A GraphModule from its pickled attributes and code, which is run and traced again."""
    source = body.get("_code") or body["code"]
    forward = _forward_from_src(f"{import_block}\n{source}", {})
    return _deserialize_graph_module(forward, body)


def _deserialize_graph_module(
    forward: Callable[..., Any], body: dict[str, Any], graph_module_cls: type | None = None
) -> Module:
    from rushlight.fx._symbolic_trace import Tracer

    holder = type("CodeOnlyModule", (_CodeOnlyModule,), {"forward": forward})(body)
    tracer_cls = body.get("_tracer_cls") or Tracer
    name = body.get("_graphmodule_cls_name", "GraphModule")
    codegen = body.get("_graphmodule_graph_codegen")
    # Every submodule that the code calls is a leaf, as it was when the code was written.
    keeping = type("KeepModules", (tracer_cls,), {"is_leaf_module": lambda self, m, path: True})
    graph = keeping().trace(holder, **(body.get("_tracer_extras") or {}))
    graph._tracer_cls = tracer_cls
    if codegen is not None:
        graph._codegen = codegen
    made = (graph_module_cls or GraphModule)(holder, graph, class_name=name)
    for key, value in body.items():
        if key not in made.__dict__ and key not in ("_code", "_graphmodule_graph_codegen"):
            made.__dict__[key] = value
    made.__dict__["meta"] = dict(body.get("meta", {}))
    made.__dict__["training"] = body.get("training", True)
    return made


class GraphModule(Module):
    """A module whose forward is written from a Graph.

    root: a Module, or a dict of dotted names, from which the attributes that the graph names are
    taken. After changes to the graph, recompile() writes the code again.

    Arguments:
        root: a module or a dict, as said above.
        graph: the Graph.
        class_name: the name of the module's class.

    Example:
        >>> graph = rl.fx.Graph()
        >>> x = graph.placeholder("x")
        >>> _ = graph.output(graph.call_module("layer", (x,)))
        >>> gm = rl.fx.GraphModule({"layer": nn.ReLU()}, graph, class_name="Net")
        >>> gm(rl.tensor([-1.0, 2.0])), type(gm).__name__
        (tensor([0., 2.]), 'Net')
    """

    _graph: Graph
    _code: str

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        # Each object has a class of its own, since forward is looked up there.
        base = cls.__bases__[0] if "_is_fx_generated" in cls.__dict__ else cls

        class GraphModuleImpl(base):  # type: ignore[misc, valid-type]
            _is_fx_generated = True

        return super().__new__(GraphModuleImpl)

    def __init__(
        self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule"
    ) -> None:
        super().__init__()
        type(self).__name__ = class_name
        if isinstance(root, Module):
            self.training = root.training
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module"):
                    _copy_attr(root, self, node.target)
        elif isinstance(root, dict):
            targets = []
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module"):
                    if node.target not in root:
                        raise RuntimeError(
                            f"GraphModule: root has no '{node.target}', which the node {node} names"
                        )
                    targets.append(node.target)
            for target in sorted(targets, key=lambda name: name.count(".")):
                _assign_attr(root[target], self, target)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.__dict__.setdefault("meta", {})
        if isinstance(root, Module) and isinstance(found := root.__dict__.get("meta"), dict):
            self.__dict__["meta"] = dict(found)
        for kind in _HOOKS:
            self.__dict__[kind] = []
        self.graph = graph
        self._tracer_cls = None
        tracer_cls = graph._tracer_cls
        if tracer_cls is not None and "<locals>" not in tracer_cls.__qualname__:
            self._tracer_cls = tracer_cls
        self._tracer_extras = graph._tracer_extras or {}

    @property
    def graph(self) -> Graph:
        """The program. Assigning another one writes the code again."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(
                f"GraphModule: the graph must be a Graph, got a {type(g).__name__}"
            )
        self.__dict__["_graph"] = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The code of forward."""
        if "_code" not in self.__dict__:
            raise RuntimeError("Code has not been generated! Please report a bug to us")
        return self._code

    def recompile(self) -> PythonCode:
        """Writes forward again; call it after changes to the graph."""
        graph = self._graph
        if isinstance(graph._codegen, PyTreeCodeGen):
            self.__dict__["_in_spec"] = graph._codegen.pytree_info.in_spec
            self.__dict__["_out_spec"] = graph._codegen.pytree_info.out_spec
        python_code = graph.python_code(root_module="self")
        self.__dict__["_code"] = python_code.src
        self.__dict__["_lineno_map"] = python_code._lineno_map
        name = graph._codegen._func_name
        made = _method_from_src(name, python_code.src, python_code.globals, graph._co_fields)
        type(self).forward = made
        return python_code

    # ---- submodules

    def add_submodule(self, target: str, m: Module) -> bool:
        """Puts a module under a dotted name; False where something else is on the way."""
        *path, last = target.split(".")
        holder: Module = self
        for name in path:
            found = getattr(holder, name, None)
            if found is None:
                found = Module()
                holder.add_module(name, found)
            elif not isinstance(found, Module):
                return False
            holder = found
        holder.add_module(last, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Removes the module of a dotted name; False where there is none."""
        *path, last = target.split(".")
        holder: Any = self
        for name in path:
            holder = getattr(holder, name, None)
            if not isinstance(holder, Module):
                return False
        if not isinstance(getattr(holder, last, None), Module):
            return False
        delattr(holder, last)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Removes the modules that the graph neither calls nor reads from."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            parts = node.target.split(".")
            used.update(".".join(parts[:i]) for i in range(1, len(parts) + 1))
            if node.op == "call_module":
                with contextlib.suppress(AttributeError):
                    below = self.get_submodule(node.target).named_modules()
                    used.update(f"{node.target}.{name}" for name, _ in below if name)
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # ---- copies and files

    def _body(self) -> dict[str, Any]:
        """The attributes without the graph and without what refers to it."""
        body = {k: v for k, v in self.__dict__.items() if k not in ("_graph", *_HOOKS)}
        body["_graphmodule_cls_name"] = type(self).__name__
        return body

    def __reduce__(self) -> tuple[Any, ...]:
        body = self._body()
        if not isinstance(self._graph._codegen, _codegen.PyTreeCodeGen):
            python_code = self._graph.python_code(root_module="self")
            body["_code"] = python_code.src
            return reduce_graph_module, (body, _format_import_block(python_code.globals))
        # Inputs that are taken apart are not traced again: the graph is kept without that.
        plain = copy.deepcopy(self._graph)
        plain._codegen = _codegen.CodeGen()
        python_code = plain.python_code(root_module="self")
        body["_code"] = python_code.src
        body["_graphmodule_graph_codegen"] = self._graph._codegen
        return reduce_graph_module, (body, _format_import_block(python_code.globals))

    def _deepcopy_init(self) -> Callable[..., None]:
        return GraphModule.__init__

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        new = type(self).__new__(type(self))
        memo[id(self)] = new
        own = {k: v for k, v in self.__dict__.items() if k not in ("_graph", *_HOOKS)}
        holder = _CodeOnlyModule(copy.deepcopy(own, memo))
        graph = copy.deepcopy(self._graph, memo)
        self._deepcopy_init()(new, holder, graph)
        type(new).__name__ = type(self).__name__
        for key, value in holder.__dict__.items():
            if key in ("_parameters", "_buffers", "_modules"):
                for name, item in value.items():  # those that the graph does not name, too
                    new.__dict__[key].setdefault(name, item)
            elif key not in new.__dict__ or key not in ("_code", "_lineno_map", "_tracer_cls"):
                new.__dict__[key] = value
        for hook in self.__dict__.get("_deepcopy_hooks", []):
            hook(new)
        return new

    def __copy__(self) -> GraphModule:
        new = GraphModule(self, self.graph)
        type(new).__name__ = type(self).__name__
        new.__dict__["meta"] = self.__dict__.get("meta", {})
        return new

    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> None:
        """Writes the code, with the parameters, as a package that can be imported."""
        import rushlight

        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        rushlight.save(self.state_dict(), place / "state_dict.pt")
        package = package_name()
        python_code = self._graph.python_code(root_module="self")
        lines = [
            f"import {package}", _format_import_block(python_code.globals), "",
            f"from {package}.nn import *", "", "",
            f"class {module_name}({package}.nn.Module):", "    def __init__(self):",
            "        super().__init__()",
        ]  # fmt: skip
        for name, module in self.named_children():
            shown = repr(module)
            if "\n" in shown or type(module).__module__.partition(".")[0] not in (
                "rushlight",
                "torch",
            ):
                file = place / f"{name}.pt"
                rushlight.save(module, file)
                shown = f"{package}.load(r'{file}', weights_only=False)"
            lines.append(f"        setattr(self, {name!r}, {shown})")
        for name, buffer in self._buffers.items():
            if buffer is None:
                continue
            if name in self._non_persistent_buffers_set:  # the state dict does not have it
                rushlight.save(buffer, place / f"{name}.pt")
                shown, kept = f"{package}.load(r'{place / name}.pt')", ", persistent=False"
            else:
                shown, kept = _empty_like(buffer), ""
            lines.append(f"        self.register_buffer({name!r}, {shown}{kept})")
        for name, parameter in self._parameters.items():
            if parameter is not None:
                shown = f"{package}.nn.Parameter({_empty_like(parameter)})"
                lines.append(f"        self.{name} = {shown}")
        lines.append(f"        self.load_state_dict({package}.load(r'{place}/state_dict.pt'))")
        body = "\n".join(f"    {line}" if line.strip() else "" for line in self.code.split("\n"))
        (place / "module.py").write_text("\n".join(lines) + "\n\n" + body.rstrip() + "\n")
        (place / "__init__.py").write_text("from .module import *\n")

    # ---- as text

    def print_readable(
        self, print_output: bool = True, include_stride: bool = False,
        include_device: bool = False, colored: bool = False, *, fast_sympy_print: bool = False,
        expanded_def: bool = False, additional_meta: list[str] | None = None,
    ) -> str:  # fmt: skip
        """The code with the places in the program that it comes from, and what ShapeProp learnt."""
        python_code = self._graph.python_code(
            root_module="self", verbose=True, include_stride=include_stride,
            include_device=include_device, colored=colored, expanded_def=expanded_def,
            additional_meta=additional_meta,
        )  # fmt: skip
        indented = "\n".join(
            f"    {line}" if line.strip() else "" for line in python_code.src.strip().split("\n")
        )
        text = f"class {type(self).__name__}({package_name()}.nn.Module):\n{indented}\n"
        for name, child in self.named_children():
            if isinstance(child, GraphModule):
                inner = child.print_readable(False, include_stride, include_device)
                inner = inner.replace(type(child).__name__, name, 1)
                text += "\n" + "\n".join(f"    {x}" if x else x for x in inner.split("\n"))
        if print_output:
            print(text)
        return text

    def __str__(self) -> str:
        original = super().__str__()
        note = "# print_readable() shows where each line comes from"
        return "\n".join([original, self._code, note])

    # ---- those who want to know of changes

    @contextlib.contextmanager
    def _set_replace_hook(self, f: Callable[..., Any]) -> Iterator[None]:
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)

    def _replicate_for_data_parallel(self):
        new = self.__copy__()
        new.__dict__["_is_replica"] = True
        return new


def _empty_like(tensor: Tensor) -> str:
    """Code for a tensor of that shape and dtype."""
    return f"{package_name()}.empty({list(tensor.shape)}, dtype={tensor.dtype})"


def _hook_methods(kind: str, name: str) -> None:
    def register(self: GraphModule, f: Callable[..., Any]) -> None:
        self.__dict__.setdefault(kind, []).append(f)

    def unregister(self: GraphModule, f: Callable[..., Any]) -> None:
        self.__dict__[kind].remove(f)

    setattr(GraphModule, f"_register_{name}_hook", register)
    setattr(GraphModule, f"_unregister_{name}_hook", unregister)


for _kind, _name in zip(
    _HOOKS, "replace_node create_node erase_node deepcopy".split(), strict=True
):
    _hook_methods(_kind, _name)

_format_target = attribute_path

__getattr__ = names_missing_from(__name__)
