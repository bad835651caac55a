"""The Python side of the ops: bindings/methods.cpp with its docstrings."""

import keyword
from dataclasses import replace

import docstrings
from emit_ops import HEADER, c_string, entries_of, is_method
from row import with_out


def by_name(rows):
    """name -> its (row, in place?) pairs, in the table's order."""
    names = {}
    for row in rows:
        for entry in entries_of(row):
            group = names.setdefault(entry.name, [])
            if all(e.row is not row for e in group):
                group.append(entry)
    return dict(sorted(names.items()))


def visible(entries, form):
    entries = [e for e in entries if not e.row.hidden]
    if form == "method":
        return [e for e in entries if is_method(e.row, e)]
    return [e for e in entries if form in e.row.forms]


def call_args(entry, form):
    """The arguments as the caller sees them: a method leaves out self, a function may add out."""
    row = entry.row
    if form == "method":
        return [a for i, a in enumerate(row.args) if i != row.self_index]
    return with_out(row).args if "out" in row.forms and entry.form == "Functional" else row.args


def shown_name(arg, form):
    return "input" if arg.name == "self" and form == "function" else arg.name


def text_signature(entry, form, parsed=False):
    """The call as `help` shows it; parsed: as `inspect.signature` reads it, where a default is a
    constant or the name of one, and a keyword is no name."""
    parts, star = (["$self"] if form == "method" else []), False
    for arg in call_args(entry, form):
        name = shown_name(arg, form)
        if entry.row.varargs and arg.kind == "Ints" and not star:
            star = True
            parts.append(f"*{name}")
            continue
        if arg.keyword_only and not star:
            star = True
            parts.append("*")
        by_place = parsed and keyword.iskeyword(name)
        name += "_" if by_place else ""
        parts.append(name if arg.default is None else f"{name}={python_default(arg, parsed)}")
        parts += ["/"] if by_place else []
    return f"{entry.name}({', '.join(parts)})"


def python_default(arg, parsed):
    text = arg.default
    if text == "None":
        return text
    if text in ("inf", "-inf", "nan"):
        return text.replace("inf", "rushlight.inf").replace("nan", "rushlight.nan")
    if arg.kind in ("DType", "MemoryFormat"):
        return "..." if parsed else f"rushlight.{text}"
    return text


def docstring(entries, form):
    """The signature with the most arguments, which stands for all; and all of them where there are
    several, or where it cannot show a default. Then what the rows say (docstrings.py)."""
    shown = visible(entries, form)
    fullest = max(shown, key=lambda e: (len(call_args(e, form)), e.row.varargs))
    parsed = text_signature(fullest, form, parsed=True)
    signatures = list(dict.fromkeys(text_signature(e, form) for e in shown))
    text = told(entries, form)
    if signatures != [parsed]:
        calls = (s.replace("$self, ", "").replace("$self", "") for s in signatures)
        text = "\n".join(calls) + "\n\n" + text
    return f"{parsed}\n--\n\n{text}"


def told(entries, form):
    """A docstring without its signatures."""
    shown = visible(entries, form)
    rows = [e.row for e in shown]
    calls = [(e.row, call_args(e, form)) for e in shown]
    name, first = shown[0].name, shown[0].row
    of = ""
    if shown[0].form == "InPlace" and first.kind != "mutate" and "internal" not in first.forms:
        of = f"The in-place form of `{first.name}`: writes the result into self and returns it."
        rows = [replace(row, told=replace(row.told, returns="Tensor: self.")) for row in rows]
    elif name != first.name:
        of = f"Another name of `{first.name}`."
    text = docstrings.body(rows, calls, lambda arg: shown_name(arg, form), of)
    return docstrings.for_function(text) if form == "function" else text


def method_table(names, form):
    lines = []
    for k, (name, entries) in enumerate(names.items()):
        if visible(entries, form):
            doc = c_string(docstring(entries, form)).replace("\n", "\\n")
            lines.append(f'    {{"{name}", fast({form}<{k}>), kFlags,\n     {doc}}},')
    return "\n".join(lines)


def not_at_top(rows):
    """Functions that the package itself does not have, as the keys `python:` say."""
    at_top = {op for row in rows for place, _, op in row.places if place == "top"}
    names = {entry.name for row in rows if "function" in row.forms for entry in entries_of(row)}
    return sorted(n for n in names - at_top if not n.startswith("_"))


def methods_cpp(rows) -> str:
    names = by_name(rows)
    listed = "".join(f'    "{name}",\n' for name in names)
    elsewhere = "".join(f'    "{name}",\n' for name in not_at_top(rows))
    return f"""{HEADER}// methods.cpp: one small function per name; the parser does the rest.
#include "bindings/call/dispatch.h"

namespace rush::py {{
namespace {{

constexpr const char* kNames[] = {{
{listed}    nullptr,
}};
constexpr int kCount = int(std::size(kNames)) - 1;
// The overloads of each name, found once when the module is loaded.
std::span<const OpEntry> g_ops[kCount + 1];

template <int K>
PyObject* function(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {{
  return call_op(g_ops[K], nullptr, args, nargs, kwnames);
}}
template <int K>
PyObject* method(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {{
  return call_op(g_ops[K], self, args, nargs, kwnames);
}}

using FastFunction = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);
PyCFunction fast(FastFunction f) {{
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}}
constexpr int kFlags = METH_FASTCALL | METH_KEYWORDS;

constexpr const char* kElsewhere[] = {{
{elsewhere}    nullptr,
}};

PyMethodDef g_functions[] = {{
{method_table(names, "function")}
    {{nullptr, nullptr, 0, nullptr}},
}};

PyMethodDef g_methods[] = {{
{method_table(names, "method")}
    {{nullptr, nullptr, 0, nullptr}},
}};

}}  // namespace

PyMethodDef* op_functions() {{ return g_functions; }}
std::span<const char* const> ops_elsewhere() {{ return {{kElsewhere, std::size(kElsewhere) - 1}}; }}
PyMethodDef* op_methods() {{ return g_methods; }}
void resolve_ops() {{
  for (int k = 0; k < kCount; ++k) g_ops[k] = find_ops(kNames[k]);
}}

}}  // namespace rush::py
"""


def outputs(rows) -> dict[str, str]:
    return {"bindings/methods.cpp": methods_cpp(rows)}
