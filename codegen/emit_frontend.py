"""C++ of the front end: the ops as users' programs call them.

The core's functions (ops/ops.h) take spans and tensors. Programs write sizes as braces or one
number, numbers where tensors stand, and TensorOptions for dtype and device; and they call ops as
methods. `frontend/functions.h` has the functions' other forms, `frontend/tensor_methods.inc` what
class Tensor declares of them, `frontend/tensor_methods.h` the bodies.
"""

from cpp_types import cpp_default, param_name, param_type
from emit_ops import HEADER, Entry, entries_of, is_method, out_names, result_type
from row import Arg, Row

# The keywords of ops that make tensors; in C++ they are one argument.
OPTIONS = ("dtype", "layout", "device", "requires_grad", "pin_memory")
OPTIONS_ARG = Arg(name="options", type="", kind="Options", default="{}")
# `x.var(0)` means the overload with a correction, not the one with this flag.
NEVER_LEFT_OUT = ("unbiased",)
# Methods that frontend/tensor_members.inc declares in another form.
WRITTEN_BY_HAND = ("index_put_",)
# Kind -> (type, type where None is allowed, what the core is given), where a program writes it in
# another way than the core.
TYPES = {
    "Operand": ("const Operand&", "const Operand&", "tensor"),
    "Tensors": ("const TensorListRef&", "const TensorListRef&", "list"),
    "Ints": ("const IntArrayRef&", "const OptionalIntArrayRef&", "list"),
    "Options": ("const TensorOptions&", "const TensorOptions&", ""),
    "String": ("const Text&", "std::optional<std::string_view>", "view"),
}


def shown_args(row: Row) -> list[Arg]:
    """The arguments as a program gives them."""
    names = [a.name for a in row.args]
    if "dtype" not in names or "device" not in names:
        return list(row.args)
    first = end = names.index("dtype")
    while end < len(names) and names[end] in OPTIONS:
        end += 1
    if "device" not in names[first:end]:
        return list(row.args)
    # A generator comes last: most programs name options, few a generator.
    others = [*row.args[:first], OPTIONS_ARG, *row.args[end:]]
    return sorted(others, key=lambda a: a.kind == "Generator")


def is_self(arg: Arg) -> bool:
    """A number is no object; `rsub` and operators serve programs that have one on the left."""
    return arg.kind == "Operand" and arg.name == "self"


def is_written_otherwise(arg: Arg) -> bool:
    """Than the core does."""
    return arg.kind in TYPES and not (arg.kind == "String" and arg.optional)


def type_of(arg: Arg) -> str:
    if is_self(arg):
        return "const Tensor&"
    if arg.kind in TYPES:
        return TYPES[arg.kind][1 if arg.optional else 0]
    return param_type(arg)


def default_of(arg: Arg) -> str | None:
    if arg.default is None or arg.name in NEVER_LEFT_OUT:
        return None
    if arg.kind == "Options":
        return "{}"
    if arg.kind == "Operand":
        return "{}" if arg.default == "None" else arg.default
    text = cpp_default(arg)
    if arg.kind == "Ints" and text != "std::nullopt":
        return text.replace("IntList{}", "IntArrayRef{}").replace(
            text[: text.index("{")], "IntArrayRef", 1
        )
    return text


def declared(args, defaults: bool) -> str:
    parts, open_tail = [], defaults
    for arg in reversed(args):
        default = default_of(arg) if open_tail else None
        open_tail = default is not None
        text = f"{type_of(arg)} {param_name(arg)}"
        parts.append(f"{text} = {default}" if default else text)
    return ", ".join(reversed(parts))


def passed(row: Row, this: int | None) -> str:
    """The arguments of the call of the core's function; `this` is the one that is the object."""
    shown = {a.name for a in shown_args(row)}
    parts = []
    for i, arg in enumerate(row.args):
        if i == this:
            parts.append("*this")
        elif arg.name not in shown:
            parts.append(f"options.{arg.name}()")
        elif is_written_otherwise(arg) and not is_self(arg):
            parts.append(f"{param_name(arg)}.{TYPES[arg.kind][2]}()")
        else:
            parts.append(param_name(arg))
    return ", ".join(parts)


def is_other(row: Row) -> bool:
    """Does a program write it in another way than the core's declaration says?"""
    return any(map(is_written_otherwise, shown_args(row)))


def result_of(entry: Entry) -> str:
    if entry.form == "InPlace":
        return "const Tensor&"
    if entry.form == "Out" and len(entry.row.results) == 1:
        return "const Tensor&"
    return result_type(entry.row)


def function(entry: Entry) -> str:
    """A template, so that the core's own function is taken wherever it fits as well."""
    row, name = entry.row, cpp_spelling(entry)
    outs = out_names(row) if entry.form == "Out" else []
    args = ", ".join([*(f"const Tensor& {n}" for n in outs), declared(shown_args(row), True)])
    call = ", ".join([*outs, passed(row, None)])
    return (
        f"template <class = void>\n{result_of(entry)} {name}({args}) {{\n"
        f"  return rush::{entry.function}({call});\n}}"
    )


def cpp_spelling(entry: Entry) -> str:
    """What the program calls: the core's name, or the alias's own."""
    if entry.name in (entry.row.name, entry.row.name + "_"):
        return entry.function
    return entry.name + "_out" if entry.form == "Out" else entry.name


def is_public(row: Row) -> bool:
    return not row.hidden and not row.name.startswith("_")


def functions(rows) -> str:
    lines = [
        HEADER + "// functions.h: ops with their arguments as programs write them.\n#pragma once\n",
        '#include "frontend/arguments.h"',
        '#include "frontend/tensor_options.h"\n#include "ops/ops.h"',
    ]
    lines += [f'#include "ops/{f}_ops.h"' for f in sorted({r.family for r in rows if r.own_header})]
    lines += ["\nnamespace rush {\n"]
    for row in rows:
        if not is_public(row) or "internal" in row.forms:
            continue
        for entry in entries_of(row):
            is_alias = cpp_spelling(entry) != entry.function
            if is_other(row) or is_alias:
                lines.append(function(entry))
    return "\n".join([*lines, "\n}  // namespace rush", ""])


def method(entry: Entry, body: bool) -> str:
    row = entry.row
    this = row.self_index
    rest = [a for a in shown_args(row) if a is not row.args[this]]
    # `std(0)` names a dim and `std(false)` a flag: a number must not become a bool.
    exact = bool(rest) and rest[0].kind == "Bool" and rest[0].default is None
    text = declared(rest, not body)
    head = "template <std::same_as<bool> Flag>\n" if exact else ""
    if exact:
        text = text.replace("bool ", "Flag ", 1)
    name = cpp_spelling(entry)
    if not body:
        return f"{head}{result_of(entry)} {name}({text}) const;"
    return (
        f"{head}inline {result_of(entry)} Tensor::{name}({text}) const {{\n"
        f"  return rush::{entry.function}({passed(row, this)});\n}}"
    )


def methods(rows) -> list[Entry]:
    return [
        e
        for row in rows
        if is_public(row)
        for e in entries_of(row)
        if is_method(row, e)
        and e.name not in WRITTEN_BY_HAND
        and row.args[row.self_index].kind in ("Tensor", "Operand")
    ]


def declarations(rows) -> str:
    title = "// tensor_methods.inc: the ops that are methods, inside class Tensor.\n"
    return "\n".join([HEADER + title, *(method(e, False) for e in methods(rows)), ""])


def definitions(rows) -> str:
    title = "// tensor_methods.h: the bodies of tensor_methods.inc.\n#pragma once\n"
    lines = [HEADER + title, '#include "frontend/functions.h"\n\nnamespace rush {\n']
    lines += [method(e, True) for e in methods(rows)]
    return "\n".join([*lines, "\n}  // namespace rush", ""])


def outputs(rows) -> dict[str, str]:
    return {
        "frontend/functions.h": functions(rows),
        "frontend/tensor_methods.inc": declarations(rows),
        "frontend/tensor_methods.h": definitions(rows),
    }
