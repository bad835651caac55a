"""Python code for a list of Nodes."""

from __future__ import annotations

import enum
import math
import os.path
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import rushlight
from rushlight import _C
from rushlight.fx import _naming
from rushlight.fx._naming import (
    IN_PLACE,
    OPERATORS,
    Namespace,
    attribute_path,
    get_qualified_name,
    is_identifier,
    is_ours,
    package_name,
    type_repr,
)  # fmt: skip
from rushlight.fx.node import Argument, Node
from rushlight.utils import _pytree as pytree

if TYPE_CHECKING:
    from rushlight.fx.graph import Graph

TransformCodeFunc = Callable[[list[str]], list[str]]


class _Builtin(NamedTuple):
    """A name that every generated module knows."""

    import_str: str
    obj: Any


def custom_builtins() -> dict[str, _Builtin]:
    """{name: how it is imported, and what it is}"""
    from rushlight.fx import _pytree as fx_pytree

    package = package_name()
    return {
        "inf": _Builtin("from math import inf", math.inf),
        "nan": _Builtin("from math import nan", math.nan),
        "NoneType": _Builtin("NoneType = type(None)", type(None)),
        package: _Builtin(f"import {package}", rushlight),
        "device": _Builtin(f"from {package} import device", _C.device),
        "fx_pytree": _Builtin(f"import {package}.fx._pytree as fx_pytree", fx_pytree),
        "pytree": _Builtin(f"import {package}.utils._pytree as pytree", pytree),
    }


@dataclass
class PythonCode:
    """Source code of a function, and the names that it needs."""

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = None  # {line of src: number of the Node}
    _prologue_start: int = 0


class CodeGen:
    """Writes a graph as a Python function. Subclasses change how arguments come and go."""

    def __init__(self) -> None:
        self._body_transformer: TransformCodeFunc | None = None
        self._func_name = "forward"

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        """The line with def. free_vars: the parameters; "self" is put first."""
        names = list(free_vars)
        if not names or names[0] != "self":
            names.insert(0, "self")
        if expanded_def:
            listed = "".join(f"    {name},\n" for name in names)
            return f"def {self._func_name}(\n{listed}){maybe_return_annotation}:"
        return f"def {self._func_name}({', '.join(names)}){maybe_return_annotation}:"

    def generate_output(
        self, output_args: Argument, *, descs: Sequence[str] | None = None,
        repr_fn: Callable[[Any], str] | None = None,
    ) -> str:  # fmt: skip
        """The line with return."""
        return f"return {(repr_fn or repr)(output_args)}"

    def process_inputs(self, *args: Any) -> Sequence[Any]:
        """The values of the placeholders, from the arguments of a call."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """What a call returns, from the value of the output."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Names that the code needs besides those of the Nodes."""
        return []

    def _gen_python_code(
        self, nodes: Iterable[Node], root_module: str, namespace: Namespace, *,
        verbose: bool = False, include_stride: bool = False, include_device: bool = False,
        colored: bool = False, expanded_def: bool = False, record_func: bool = False,
        additional_meta: list[str] | None = None,
    ) -> PythonCode:  # fmt: skip
        writer = _Writer(self, list(nodes), root_module, namespace)
        writer.verbose = verbose
        writer.include = (include_stride, include_device)
        writer.additional_meta = additional_meta or []
        return writer.write(expanded_def)


class PyTreeInfo(NamedTuple):
    """What arguments and results are made of."""

    orig_args: list[str]
    in_spec: Any
    out_spec: Any


class PyTreeCodeGen(CodeGen):
    """Takes containers apart on the way in and puts results together on the way out."""

    def __init__(self, pytree_info: PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *args: Any) -> Sequence[Any]:
        from rushlight.fx._pytree import tree_flatten_spec

        return tree_flatten_spec(args, self.pytree_info.in_spec)

    def process_outputs(self, outputs: Any) -> Any:
        if self.pytree_info.out_spec is None:
            return outputs
        if not isinstance(outputs, (list, tuple)):
            outputs = [outputs]
        return pytree.tree_unflatten(list(outputs), self.pytree_info.out_spec)

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        names = list(self.pytree_info.orig_args)
        without_self = names[1:] if names and names[0] == "self" else names
        text = super().gen_fn_def(names, maybe_return_annotation, expanded_def=expanded_def)
        if free_vars:
            plain = [name.partition(":")[0].partition("=")[0].strip() for name in free_vars]
            text += (
                f"\n    {', '.join(plain)}, = fx_pytree.tree_flatten_spec("
                f"[{', '.join(name.lstrip('*') for name in without_self)}], self._in_spec)"
            )
        return text

    def generate_output(
        self, output_args: Argument, *, descs: Sequence[str] | None = None,
        repr_fn: Callable[[Any], str] | None = None,
    ) -> str:  # fmt: skip
        shown = (repr_fn or repr)(output_args)
        if self.pytree_info.out_spec is None:
            return f"return {shown}"
        return f"return pytree.tree_unflatten({shown}, self._out_spec)"


class BoxedCodeGen(CodeGen):
    """A function whose only argument is a list of the inputs, which it empties."""

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        plain = [name.partition(":")[0].partition("=")[0].strip() for name in free_vars]
        text = f"def {self._func_name}(self, args_list){maybe_return_annotation}:"
        if plain:
            text += f"\n    {', '.join(plain)}, = args_list"
        return text + "\n    args_list.clear()"

    def process_inputs(self, *args: Any) -> Sequence[Any]:
        if len(args) == 1 and isinstance(args[0], list):
            return tuple(args[0])
        return args


_DTYPES = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int64": "i64",
    "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "b8",
    "complex64": "c64", "complex128": "c128",
}  # fmt: skip


class _Writer:
    """One run of the generator."""

    verbose = False
    include = (False, False)
    additional_meta: list[str]

    def __init__(self, codegen, nodes, root_module, namespace):
        self.codegen, self.nodes, self.root = codegen, nodes, root_module
        self.namespace = namespace
        self.free_vars = []
        self.body = []
        self.globals = {}
        self.wrapped = {}  # {name: None} of functions that stay hidden when traced again
        self.return_annotation = ""
        self.last_comment = None
        for name, builtin in custom_builtins().items():
            namespace.reserve(name, builtin.obj)
            self.globals[name] = builtin.obj
        for name, value in codegen.additional_globals():
            self.add_global(name, value)

    # -- names

    def add_global(self, hint, obj):
        """The name by which the code finds an object."""
        if is_ours(hint) and obj is not _C.device:
            # Reached from the package: torch.nn.functional.relu.
            self.globals[hint.partition(".")[0]] = rushlight
            if _reachable(hint) is obj:
                return hint
        name = re.sub(r"[^0-9a-zA-Z_]", "_", hint.replace(".", "_"))
        if hint in self.globals and self.globals[hint] is obj:
            return hint
        if _is_builtin(hint, obj):
            return hint
        name = self.namespace.create_name(f"_{name}" if name.startswith("operator") else name, obj)
        self.globals[name] = obj
        return name

    def type_name(self, annotation):
        shown = type_repr(annotation)
        if isinstance(annotation, str):
            return annotation
        if annotation is None or annotation is type(None):
            return "None"
        origin = getattr(annotation, "__origin__", None)
        if origin is not None and (args := getattr(annotation, "__args__", ())):
            base = self.add_global(type_repr(origin), origin)
            if not isinstance(origin, type):  # Union and the like, whose repr says typing.Union
                base = self.add_global(str(origin), origin)
            inner = ", ".join("..." if a is ... else self.type_name(a) for a in args)
            return f"{base}[{inner}]"
        return self.add_global(shown, annotation)

    def show(self, arg):
        """An argument as code."""
        if isinstance(arg, Node):
            return repr(arg)
        if isinstance(arg, tuple) and hasattr(arg, "_fields"):
            name = self.add_global(type_repr(type(arg)), type(arg))
            return f"{name}({', '.join(self.show(a) for a in arg)})"
        if isinstance(arg, _C.Size):
            return f"{package_name()}.Size({list(arg)})"
        if isinstance(arg, (tuple, list)):
            inner = ", ".join(self.show(a) for a in arg)
            if isinstance(arg, list):
                return f"[{inner}]"
            return f"({inner},)" if len(arg) == 1 else f"({inner})"
        if isinstance(arg, dict):
            return f"{{{', '.join(f'{k!r}: {self.show(v)}' for k, v in arg.items())}}}"
        if isinstance(arg, slice):
            return f"slice({self.show(arg.start)}, {self.show(arg.stop)}, {self.show(arg.step)})"
        if isinstance(arg, (_C.dtype, _C.layout, _C.memory_format)):
            return repr(arg)
        if isinstance(arg, enum.Enum):
            return f"{self.add_global(type_repr(type(arg)), type(arg))}.{arg.name}"
        if isinstance(arg, type):
            return self.type_name(arg)
        if isinstance(arg, _C.Tensor):
            raise RuntimeError(
                "a tensor stands among the arguments of a Node, where code cannot name it: make it "
                "an attribute of the module and use graph.get_attr"
            )
        if callable(arg) and hasattr(arg, "__name__"):
            return self.add_global(get_qualified_name(arg), arg)
        return repr(arg)

    def call(self, args, kwargs):
        shown = [self.show(a) for a in args]
        shown += [f"{key} = {self.show(value)}" for key, value in kwargs.items()]
        return ", ".join(shown)

    # -- lines

    def assign(self, node):
        """`name = ` or, with a type, `name : type = `."""
        if self.verbose and (meta := self.tensor_type(node)):
            return f"{node!r}: {meta} = "
        annotation = f" : {self.type_name(node.type)}" if node.type is not None else ""
        return f"{node!r}{annotation} = "

    def tensor_type(self, node):
        """ "f32[2, 3]" for a Node of which ShapeProp has learnt that."""
        meta = node.meta.get("val", node.meta.get("tensor_meta"))
        if getattr(meta, "shape", None) is None or getattr(meta, "dtype", None) is None:
            return ""
        dtype = str(meta.dtype).rpartition(".")[2]
        text = f"{_DTYPES.get(dtype, dtype)}[{', '.join(str(n) for n in meta.shape)}]"
        stride, device = self.include
        if stride:
            steps = meta.stride() if callable(meta.stride) else meta.stride
            text += f"[{', '.join(str(n) for n in steps)}]"
        if device and hasattr(meta, "device"):
            text += str(meta.device)
        return f'"{text}"'

    def placeholder(self, node):
        raw = node.target.replace("*", "")
        name = f"{node.target}"
        if self.verbose and (meta := self.tensor_type(node)):
            name += f": {meta}"
        elif node.type is not None:
            name += f" : {self.type_name(node.type)}"
        if node.args:
            name += f" = {self.show(node.args[0])}"
        self.free_vars.append(name)
        if raw != repr(node):
            self.line(f"{node!r} = {raw}")

    def call_function(self, node):
        target, args = node.target, node.args
        plain = not node.kwargs
        if plain and target in OPERATORS and len(args) == OPERATORS[target].count("{}"):
            shown = [self.show(a) for a in args]
            return self.assign(node) + OPERATORS[target].format(*shown)
        if plain and target in IN_PLACE and len(args) == 2 and isinstance(args[0], Node):
            # The object changes, or its name means another one from here on: both as in Python.
            first, second = (self.show(a) for a in args)
            return f"{first} {IN_PLACE[target]} {second};  {self.assign(node)}{first}"
        qualified = get_qualified_name(target)
        name = self.add_global(qualified, target)
        if node.meta.get("is_wrapped", False):
            self.wrapped.setdefault(name)
        if target is getattr and plain and len(args) == 2 and isinstance(args[1], str):
            if is_identifier(args[1]):
                return f"{self.assign(node)}{attribute_path(self.show(args[0]), args[1])}"
        return f"{self.assign(node)}{name}({self.call(args, node.kwargs)})"

    def statement(self, node):
        if node.op == "call_function":
            return self.call_function(node)
        if node.op == "call_method":
            owner = self.show(node.args[0])
            if not isinstance(node.args[0], Node):
                owner = f"({owner})"
            call = self.call(node.args[1:], node.kwargs)
            return f"{self.assign(node)}{attribute_path(owner, node.target)}({call})"
        path = attribute_path(self.root, node.target)
        if node.op == "get_attr":
            return f"{self.assign(node)}{path}"
        return f"{self.assign(node)}{path}({self.call(node.args, node.kwargs)})"

    def line(self, text):
        self.body.append(f"{text}\n")

    def comment(self, node):
        """Where in the program the Node comes from, when that changes."""
        place = _place(node.stack_trace)
        if place is None:
            place = "# from no known line"
        if place != self.last_comment:
            self.last_comment = place
            self.line(f"\n{place}")

    def write(self, expanded_def):
        dead = _last_uses(self.nodes)
        for number, node in enumerate(self.nodes):
            if self.verbose and node.op not in ("placeholder", "output"):
                self.comment(node)
            self.body.append(f"# COUNTER: {number}\n")
            if node.op == "placeholder":
                self.placeholder(node)
                continue
            if node.op == "output":
                if node.type is not None:
                    self.return_annotation = f" -> {self.type_name(node.type)}"
                returned = _accepted(
                    self.codegen.generate_output, node.args[0], descs=None, repr_fn=self.show
                )
                self.line(returned)
                continue
            text = self.statement(node)
            for key in self.additional_meta:
                if key in node.meta:
                    text += f"  # {key}: {node.meta[key]}"
            unused = dead.get(node, [])
            if unused:
                text += f";  {' = '.join(repr(n) for n in unused)} = None"
            self.line(text)
        return self.assemble(expanded_def)

    def assemble(self, expanded_def):
        body = self.body if any(not _COUNTER.match(b) for b in self.body) else ["pass\n"]
        if self.codegen._body_transformer is not None:
            body = self.codegen._body_transformer(body)
        wrapper = f"{package_name()}.fx._symbolic_trace.wrap"
        wrap = "\n".join(f'{wrapper}("{name}")' for name in self.wrapped)
        prologue = _accepted(
            self.codegen.gen_fn_def, self.free_vars, self.return_annotation,
            expanded_def=expanded_def,
        )  # fmt: skip
        # The numbers of the Nodes become a table of lines.
        start = 3 + prologue.count("\n") + wrap.count("\n") + 1
        lines, kept, node = {}, [], None
        for text in "".join(body).split("\n"):
            counter = _COUNTER.match(text)
            if counter is None:
                kept.append(text)
                lines[start + len(kept)] = node
            else:
                node = int(counter[1])
        code = "".join(f"    {text}\n" if text else "\n" for text in kept[:-1])
        return PythonCode(f"\n{wrap}\n\n{prologue}\n{code}    ", self.globals, lines, start)


_COUNTER = re.compile(r"# COUNTER: (\d+)$", re.MULTILINE)


def _accepted(method, *args, **kwargs):
    """Calls a method of a CodeGen, which may know fewer keywords than ours do."""
    import inspect

    known = inspect.signature(method).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in known.values()):
        kwargs = {key: value for key, value in kwargs.items() if key in known}
    return method(*args, **kwargs)


def _reachable(dotted):
    """The object that a dotted name of the library leads to."""
    found = rushlight
    for part in dotted.split(".")[1:]:
        found = getattr(found, part, None)
    return found


def _is_builtin(name, obj):
    import builtins

    return getattr(builtins, name, _naming) is obj


def _last_uses(nodes):
    """{Node: those that nobody needs after it}, placeholders and results without users included."""
    found = {}
    seen = set()
    for node in reversed(nodes):
        found[node] = [used for used in node.all_input_nodes if used not in seen]
        seen.update(found[node])
        if node not in seen and node.op != "placeholder":
            found[node].append(node)
    return found


def _place(stack_trace):
    """The innermost line of a recorded stack."""
    if not stack_trace:
        return None
    found = re.findall(r'File "([^"]+)", line (\d+), in (\S+)\n\s*(.*)', stack_trace)
    if not found:
        return None
    file, line, name, code = found[-1]
    return f"# File: {os.path.basename(file)}:{line} in {name}, code: {code}"


def code_of(graph: Graph, root_module: str, namespace: Namespace, **options: Any) -> PythonCode:
    """The code of a graph, whose names were put into the namespace."""
    return graph._codegen._gen_python_code(graph.nodes, root_module, namespace, **options)
