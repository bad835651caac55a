"""C++ of the ops themselves: ops/ops.h, ops/<family>.inc and ops/registry_table.cpp."""

from dataclasses import dataclass

from cpp_types import KEYWORDS, maker_body, param_name, params, reader, result_type
from row import Row, in_place_name, with_out
from row_keys import AUTOCAST_DEVICES, POLICIES

HEADER = "// Generated from the op table by codegen/generate.py; edit csrc/ops/*/*.yaml instead.\n"


@dataclass(frozen=True)
class Entry:
    """One OpEntry: a form of a row under one of its names."""

    row: Row
    name: str
    form: str  # Functional, InPlace, Out
    function: str  # the C++ function behind it


def is_mutate(row):
    return row.kind == "mutate"


def cpp_name(row: Row) -> str:
    """The C++ function; words that C++ keeps to itself become as_float, as_int."""
    return row.cpp_name or (f"as_{row.name}" if row.name in KEYWORDS else row.name)


def entries_of(row: Row) -> list[Entry]:
    """A row's entries; aliases call the same C++ functions."""
    entries = []
    function = cpp_name(row)
    for name in row.names:
        if is_mutate(row):
            entries.append(Entry(row, name, "InPlace", function))
            continue
        if row.forms & {"function", "method", "internal"}:
            entries.append(Entry(row, name, "Functional", function))
        if "out" in row.forms:
            entries.append(Entry(row, name, "Out", function + "_out"))
        if "inplace" in row.forms:
            entries.append(Entry(row, in_place_name(name), "InPlace", in_place_name(function)))
    return entries


def is_reduction(row):
    """Computes fewer elements from those of self, which is its first argument."""
    return (
        row.kind == "compute" and row.self_index == 0 and any(a.name == "keepdim" for a in row.args)
    )


def is_method(row, entry):
    """An in-place form is a method where the op has no other (copy_), and where the op is one."""
    alone = not row.forms & {"function", "internal"}
    return entry.form != "Out" and ("method" in row.forms or (entry.form == "InPlace" and alone))


def entry_args(entry: Entry):
    return with_out(entry.row).args if entry.form == "Out" else entry.row.args


def out_names(row):
    return ["out"] if len(row.results) == 1 else [f"out{i}" for i in range(len(row.results))]


def signature(entry: Entry, defaults: bool) -> str:
    row = entry.row
    plain = params(row.args, defaults)
    if entry.form == "InPlace":
        return f"const Tensor& {entry.function}({plain})"
    if entry.form == "Out":
        outs = ", ".join(f"const Tensor& {n}" for n in out_names(row))
        result = "const Tensor&" if len(row.results) == 1 else result_type(row)
        return f"{result} {entry.function}({outs}{', ' if plain else ''}{plain})"
    return f"{result_type(row)} {entry.function}({plain})"


def own_entries(row: Row) -> list[Entry]:
    """One entry a C++ function: those under the row's first name."""
    return [e for e in entries_of(row) if e.name in (row.name, in_place_name(row.name))]


def ops_header(rows) -> str:
    rows = [row for row in rows if not row.own_header]
    return declarations("ops.h: every operator as a C++ function.", rows)


def family_header(family, rows) -> str:
    return declarations(f"{family}_ops.h: the operators of {family}.yaml as C++ functions.", rows)


def declarations(title, rows) -> str:
    lines = [
        HEADER + f"// {title}\n#pragma once\n",
        "#include <array>\n#include <limits>\n#include <optional>\n#include <string_view>",
        '#include <tuple>\n#include <vector>\n\n#include "ops/framework/value.h"\n',
        "namespace rush {\n",
    ]
    for row in rows:
        lines.append(f"// {row.doc}")
        lines += [f"RUSH_API {signature(e, True)};" for e in own_entries(row)]
    return "\n".join([*lines, "\n}  // namespace rush", ""])


CONCEPTS = {"compute": "ComputeOp", "view": "ViewOp", "composite": "CompositeOp",
            "mutate": "MutateOp"}  # fmt: skip
CALLS = {
    ("compute", "Functional"): "call", ("compute", "InPlace"): "call_inplace",
    ("compute", "Out"): "call_out",
    ("view", "Functional"): "call_view", ("view", "InPlace"): "call_view_inplace",
    ("composite", "Functional"): "compose", ("composite", "InPlace"): "compose_inplace",
    ("composite", "Out"): "compose_out",
    ("mutate", "InPlace"): "mutate",
}  # fmt: skip


def definition(entry: Entry, index: int) -> str:
    row = entry.row
    call = f"op::{CALLS[row.kind, entry.form]}<{row.struct}>"
    me = f"table::{row.family}[{index}]"
    args = "".join(f", {param_name(a)}" for a in row.args)
    slow = f"  if (t_modes & kSlowPath && is_intercepted({me})) [[unlikely]] "
    lines = [signature(entry, False) + " {"]
    if entry.form == "Functional":
        if row.kind == "compute":  # pointwise ones may be deferred, see device/deferred.h
            lines.append("  if (t_modes & kSlowPath) [[unlikely]] {")
            lines.append(
                f"    if (is_intercepted({me})) return intercept<{result_type(row)}>({me}{args});"
            )
            lines.append(
                f"    if (op::defers<{row.struct}>({args[2:]}))"
                f" return op::call_arranged<{row.struct}>({args[2:]});\n  }}"
            )
        else:
            lines.append(f"{slow}return intercept<{result_type(row)}>({me}{args});")
        lines.append(f"  return {call}({args[2:]});")
    elif entry.form == "InPlace":
        lines.append(f"{slow}return intercept<void>({me}{args}), {param_name(row.args[0])};")
        lines.append(f"  {call}({args[2:]});\n  return {param_name(row.args[0])};")
    elif len(row.results) == 1:
        lines.append(f"{slow}return intercept<void>({me}{args}, out), out;")
        lines.append(f"  {call}(out{args});\n  return out;")
    else:
        outs = ", ".join(out_names(row))
        lines.append(f"  const std::array<Tensor, {len(row.results)}> outs{{{outs}}};")
        lines.append(f"{slow}{{")
        lines.append(
            f"    intercept<void>({me}{args}, TensorList(outs));\n    return {{{outs}}};\n  }}"
        )
        lines.append(f"  {call}(outs{args});\n  return {{{outs}}};")
    return "\n".join([*lines, "}"])


def boxed(entry: Entry) -> str:
    """A captureless lambda over Values; results of in-place and out forms borrow the argument."""
    row = entry.row
    args = [reader(a, i) for i, a in enumerate(row.args)]
    n = len(row.args)
    if entry.form == "Out" and len(row.results) == 1:
        args.insert(0, f"a[{n}].tensor()")
    elif entry.form == "Out":
        args = [f"a[{n}].tensors()[{i}]" for i in range(len(row.results))] + args
    values = "Value* a" if args else "Value*"
    return f"[]({values}, Value* r) {{ store(r, rush::{entry.function}({', '.join(args)})); }}"


def c_string(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def flag(value) -> str:
    return "true" if value else "false"


class Family:
    """Collects what one family's .inc file holds."""

    def __init__(self, name, rows):
        self.name, self.rows = name, rows
        self.makers = {}  # body -> name of the function that makes a default
        self.entries = [e for row in rows for e in entries_of(row)]

    def maker(self, arg):
        body = maker_body(arg)
        if body is None:
            return "nullptr"
        return self.makers.setdefault(body, f"default_{len(self.makers)}")

    def arg_spec(self, arg):
        default = {None: "Required", "None": "None"}.get(arg.default, "Value")
        fields = [
            c_string(arg.name),
            f"ArgKind::{arg.kind}",
            flag(arg.optional),
            flag(arg.keyword_only),
            str(arg.count),
            flag(arg.holes),
            f"DefaultKind::{default}",
            c_string(arg.default or ""),
            self.maker(arg),
        ]
        return "    {" + ", ".join(fields) + "},"

    def arg_arrays(self):
        """One array per row, `out` at its end when there is one: the other forms read fewer."""
        lines = []
        for i, row in enumerate(self.rows):
            args = with_out(row).args if "out" in row.forms else row.args
            if args:
                lines.append(f"constexpr ArgSpec args_{i}[] = {{  // {row.name}")
                lines += [self.arg_spec(a) for a in args]
                lines.append("};")
        return lines

    def rules(self):
        """The batching rules that rows name. Declared here, and not included, so that a new rule
        compiles its own families again and no other."""
        names = sorted({row.batch for row in self.rows if row.batch})
        if not names:
            return []
        declared = "\n".join(f"void {name}(BatchedCall& c);" for name in names)
        return [f"namespace batch {{\n{declared}\n}}\n"]

    def formulas(self):
        """One function per formula of a row."""
        lines = []
        for i, row in enumerate(self.rows):
            for key, body in row.profile:
                uses = ["const Value* " + v if f"{v}[" in body else "const Value*" for v in "ar"]
                lines.append(f"int64_t {key}_{i}({', '.join(uses)}) {{ return {body}; }}")
        return lines

    def cost(self, key, row, row_index):
        """The formula of an entry; without one, that of its class."""
        if any(key == k for k, _ in row.profile):
            return f"{key}_{row_index}"
        if key == "flops" and row.pointwise:
            return "cost::pointwise_flops"
        return "cost::reduction_flops" if key == "flops" and is_reduction(row) else "nullptr"

    def entry(self, entry, row_index):
        row = entry.row
        n = len(entry_args(entry))
        in_place = entry.form == "InPlace"
        autocast = dict(row.autocast)
        # In the order of DeviceType.
        policies = [
            f"AutocastPolicy::{POLICIES[autocast[device]] if device in autocast else 'None'}"
            for device in AUTOCAST_DEVICES
        ]
        fields = {
            "name": c_string(entry.name),
            "overload": c_string(row.overload),
            "form": f"Form::{entry.form}",
            "kind": f"OpKind::{row.kind.capitalize()}",
            "pointwise": flag(row.pointwise),
            "is_method": flag(is_method(row, entry)),
            "is_function": flag("function" in row.forms),
            "varargs": flag(row.varargs),
            "hidden": flag(row.hidden),
            "self_index": str(row.self_index),
            "num_results": "1" if in_place else str(len(row.results)),
            "result_names": c_string("" if in_place else " ".join(row.result_names)),
            "doc": c_string(row.doc),
            "args": f"{{args_{row_index}, {n}}}" if n else "{}",
            "boxed": boxed(entry),
            "block": f"&block_id<{row.struct}>",
            "autocast": "{" + ", ".join(policies) + "}",
            "batch": f"batch::{row.batch}" if row.batch else "nullptr",
            "flops": self.cost("flops", row, row_index),
            "bytes": self.cost("bytes", row, row_index),
        }
        return "    {" + ",\n     ".join(f".{k} = {v}" for k, v in fields.items()) + "},"

    def text(self):
        arrays = self.arg_arrays()
        makers = [
            f"Value {name}() {{ Value v; {body}; return v; }}" for body, name in self.makers.items()
        ]
        index = {e: i for i, e in enumerate(self.entries)}
        lines = [
            HEADER + f"// Included at the end of csrc/ops/{self.name}.cpp.",
            '#include "ops/framework/boxing.h"\n#include "ops/framework/cost.h"\n'
            + '#include "ops/framework/op.h"\n'
            + '#include "ops/framework/out_form.h"\n#include "ops/ops.h"\n'
            + (f'#include "ops/{self.name}_ops.h"\n' if self.rows[0].own_header else ""),
            "namespace rush {\n",
            f"namespace table {{\nextern const OpEntry {self.name}[];\n}}\n",
            *self.rules(),
        ]
        for row in self.rows:
            lines.append(f"static_assert({CONCEPTS[row.kind]}<{row.struct}>);")
            lines += [definition(e, index[e]) for e in own_entries(row)]
            lines.append("")
        lines += ["namespace table {\nnamespace {\n", *makers, *arrays, *self.formulas()]
        lines.append("\n}  // namespace\n")
        lines.append(f"const OpEntry {self.name}[] = {{")
        row_index = {id(row): i for i, row in enumerate(self.rows)}
        lines += [self.entry(e, row_index[id(e.row)]) for e in self.entries]
        lines.append("};")
        lines.append(f"extern const size_t {self.name}_count;")
        lines.append(f"const size_t {self.name}_count = std::size({self.name});")
        lines.append("\n}  // namespace table\n}  // namespace rush\n")
        return "\n".join(lines)


def registry_table(families, rows) -> str:
    """The one file that knows all families; csrc/ops/framework/registry.cpp sorts what it lists."""
    lines = [
        HEADER,
        '#include "ops/framework/registry.h"\n#include "ops/framework/result_kind.h"\n\n'
        "namespace rush::table {\n",
    ]
    for f in families:
        lines.append(f"extern const OpEntry {f}[];\nextern const size_t {f}_count;")
    lines.append(
        "\nvoid for_each_family(void (*visit)(std::span<const OpEntry>, void*), void* to) {"
    )
    lines += [f"  visit({{{f}, {f}_count}}, to);" for f in families]
    if not families:
        lines.append("  (void)visit, (void)to;")
    lines += ["}\n\n}  // namespace rush::table\n", "namespace rush {\n"]
    lines.append(
        "std::span<const SoleResult> other_results() {\n  static constexpr SoleResult rows[] = {"
    )
    lines += [
        f"      {{{c_string(row.name)}, {c_string(row.overload)}, {c_string(row.results[0])}}},"
        for row in rows
        if len(row.results) == 1 and row.results[0] != "Tensor"
    ]
    lines.append('      {"", "", ""},')  # a table without such ops
    return "\n".join([*lines, "  };\n  return rows;\n}\n\n}  // namespace rush", ""])
