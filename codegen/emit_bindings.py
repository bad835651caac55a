"""The Python side of the ops: bindings/methods.cpp with its docstrings, and the type stub."""

import keyword
from pathlib import Path

from emit_ops import HEADER, c_string, entries_of, is_method
from schema import TableError, with_out

STUB_START = Path(__file__).with_name("stub_start.pyi")
# With an underscore where Tensor has an attribute or method of the same name.
STUB_TYPES = {
    "Tensor": "Tensor",
    "Operand": "Tensor | Number",
    "Tensors": "Sequence[Tensor]",
    "Scalar": "Number",
    "Int": "_int",
    "Ints": "Sequence[_int]",
    "Float": "_float",
    "Floats": "Sequence[_float]",
    "Bool": "_bool",
    "String": "str",
    "DType": "_dtype",
    "Device": "DeviceLike",
    "Layout": "_layout",
    "MemoryFormat": "_memory_format",
    "Generator": "Generator",
}
STUB_RESULTS = {
    "Tensor": "Tensor",
    "Tensor[]": "tuple[Tensor, ...]",
    "Scalar": "Number",
    "bool": "_bool",
    "int": "_int",
    "float": "_float",
    "DType": "_dtype",
}


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


def text_signature(entry, form):
    """What `help` shows and `inspect.signature` reads."""
    parts, star = (["$self"] if form == "method" else []), False
    for arg in call_args(entry, form):
        if arg.keyword_only and not star:
            star = True
            parts.append("*")
        name = shown_name(arg, form)
        parts.append(name if arg.default is None else f"{name}={python_default(arg)}")
    return f"{entry.name}({', '.join(parts)})"


def python_default(arg):
    text = arg.default
    if text in ("inf", "-inf", "nan"):
        return f"float('{text}')"
    if arg.kind in ("DType", "MemoryFormat"):
        return f"rushlight.{text}"
    return text


def docstring(entries, form):
    shown = visible(entries, form)
    first = shown[0]
    signatures = [text_signature(e, form) for e in shown]
    simple = len(shown) == 1 and "rushlight." not in signatures[0] and "float(" not in signatures[0]
    docs = list(dict.fromkeys(e.row.doc for e in shown))
    if simple and not any(keyword.iskeyword(a.name) for a in first.row.args):
        return f"{signatures[0]}\n--\n\n{docs[0]}"
    return "\n".join(s.replace("$self, ", "").replace("$self", "") for s in signatures) + (
        "\n\n" + "\n".join(docs)
    )


def method_table(names, form):
    lines = []
    for k, (name, entries) in enumerate(names.items()):
        if visible(entries, form):
            doc = c_string(docstring(entries, form)).replace("\n", "\\n")
            lines.append(f'    {{"{name}", fast({form}<{k}>), kFlags,\n     {doc}}},')
    return "\n".join(lines)


def methods_cpp(rows) -> str:
    names = by_name(rows)
    listed = "".join(f'    "{name}",\n' for name in names)
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
PyMethodDef* op_methods() {{ return g_methods; }}
void resolve_ops() {{
  for (int k = 0; k < kCount; ++k) g_ops[k] = find_ops(kNames[k]);
}}

}}  // namespace rush::py
"""


def stub_type(arg, varargs=False):
    text = STUB_TYPES[arg.kind]
    if arg.kind == "Ints" and (arg.count or varargs):
        text = "_int | " + text
    if arg.holes:
        text = "Sequence[Tensor | None]"
    return text + " | None" if arg.optional else text


def stub_def(entry, form, overloaded, indent):
    parts, star = (["self"] if form == "method" else []), False
    for arg in call_args(entry, form):
        name = shown_name(arg, form)
        varargs = entry.row.varargs and arg.kind == "Ints" and not star
        if varargs:
            star = True
            parts.append(f"*{name}: _int | Sequence[_int]")
            continue
        if arg.keyword_only and not star:
            star = True
            parts.append("*")
        if keyword.iskeyword(name):
            name += "_"
        default = "" if arg.default is None else " = ..."
        parts.append(f"{name}: {stub_type(arg)}{default}")
    results = [STUB_RESULTS[r] for r in entry.row.results]
    result = results[0] if len(results) == 1 else f"tuple[{', '.join(results)}]"
    pad = " " * indent
    head = f"{pad}@overload\n" if overloaded else ""
    return f"{head}{pad}def {entry.name}({', '.join(parts)}) -> {result}: ...\n"


def stub(rows) -> str:
    names = by_name(rows)

    def block(form, indent):
        text = ""
        for name, entries in names.items():
            shown = visible(entries, form)
            if not keyword.iskeyword(name):
                text += "".join(stub_def(e, form, len(shown) > 1, indent) for e in shown)
        return text

    start = STUB_START.read_text()
    for mark in ("    # <methods>\n", "# <functions>\n"):
        if mark not in start:
            raise TableError(f"{STUB_START.name}: the line '{mark.strip()}' is missing")
    start = start.replace("    # <methods>\n", block("method", 4))
    return start.replace("# <functions>\n", block("function", 0))


def outputs(rows) -> dict[str, str]:
    return {"bindings/methods.cpp": methods_cpp(rows), "rushlight/_C/__init__.pyi": stub(rows)}
