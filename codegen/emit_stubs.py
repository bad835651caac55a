"""The type stub of rushlight._C: every op with its overloads, defaults and docstring.

What is bound by hand stands in stub_core.pyi and stub_tensor.pyi; the ops are put at their marks.
"""

import keyword
import textwrap
from pathlib import Path

from emit_bindings import by_name, call_args, shown_name, told, visible
from schema import TableError

PARTS = [Path(__file__).with_name(name) for name in ("stub_core.pyi", "stub_tensor.pyi")]
# With an underscore where a dtype, or an attribute or method of Tensor, has the same name.
ARGUMENTS = {
    "Tensor": "Tensor",
    "Operand": "Tensor | _Number",
    "Tensors": "Sequence[Tensor]",
    "Scalar": "_Number",
    "Int": "_int",
    "Ints": "Sequence[_int]",
    "Float": "_float",
    "Floats": "Sequence[_float]",
    "Bool": "_bool",
    "String": "str",
    "DType": "_dtype",
    "Device": "_DeviceLike",
    "Layout": "_layout",
    "MemoryFormat": "_memory_format",
    "Generator": "Generator",
}
RESULTS = {
    "Tensor": "Tensor",
    "Tensor[]": "tuple[Tensor, ...]",
    "Scalar": "Any",  # whose kind depends on the dtype
    "bool": "_bool",
    "int": "_int",
    "float": "_float",
    "DType": "_dtype",
}


def argument_type(arg):
    text = ARGUMENTS[arg.kind]
    if arg.kind == "Ints" and arg.count:
        text = "_int | " + text
    if arg.holes:
        text = "Sequence[Tensor | None]"
    if arg.name == "out" and arg.kind == "Tensors":
        text = "tuple[Tensor, ...]"
    return text + " | None" if arg.optional else text


def default(arg):
    if arg.default is None:
        return ""
    is_object = arg.kind in ("DType", "MemoryFormat") and arg.default != "None"
    return (
        " = ..." if is_object or arg.default.lstrip("-") in ("inf", "nan") else f" = {arg.default}"
    )


def result_type(row):
    if len(row.results) == 1:
        return RESULTS[row.results[0]]
    if row.result_names:
        return f"_return_types.{row.name}"
    return f"tuple[{', '.join(RESULTS[r] for r in row.results)}]"


def parameters(entry, form, spread):
    """The parameters of a `def`; `spread`: those of x.view(2, 3), not of x.view((2, 3))."""
    parts, star = (["self"] if form == "method" else []), False
    for arg in call_args(entry, form):
        name = shown_name(arg, form)
        if spread and arg.kind == "Ints" and not star:
            star = True
            parts.append(f"*{name}: _int")
            continue
        if arg.keyword_only and not star:
            star = True
            parts.append("*")
        if keyword.iskeyword(name):  # such a name can only be given by position
            parts += [f"{name}_: {argument_type(arg)}{default(arg)}", "/"]
            continue
        parts.append(f"{name}: {argument_type(arg)}{default(arg)}")
    return ", ".join(parts)


def definitions(name, entries, form, pad):
    shown = visible(entries, form)
    if not shown or keyword.iskeyword(name):
        return ""
    signatures = {}  # rows may differ in what a stub does not tell
    for entry in shown:
        for spread in (False, True) if entry.row.varargs else (False,):
            doc = entry.row.doc if signatures else quoted(told(entries, form), pad)
            signatures.setdefault(parameters(entry, form, spread), (result_type(entry.row), doc))
    overload = f"{pad}@overload\n" if len(signatures) > 1 else ""
    return "".join(
        f'{overload}{pad}def {name}({given}) -> {result}:\n{pad}    """{doc}"""\n'
        for given, (result, doc) in signatures.items()
    )


def quoted(doc, pad):
    """A docstring of several lines inside its quotes; that of the first overload serves all."""
    text = doc.replace("\\", "\\\\").replace('"', '\\"')
    return textwrap.indent(text, pad + "    ").lstrip() + "\n" + pad + "    "


def stub(rows) -> str:
    names = by_name(rows)
    marks = {
        "    # <methods>\n": "".join(definitions(n, e, "method", "    ") for n, e in names.items()),
        "# <functions>\n": "".join(definitions(n, e, "function", "") for n, e in names.items()),
    }
    text = "\n".join(part.read_text() for part in PARTS)
    for mark, block in marks.items():
        if mark not in text:
            raise TableError(f"codegen/stub_*.pyi: the line '{mark.strip()}' is missing")
        text = text.replace(mark, block)
    return text


def outputs(rows) -> dict[str, str]:
    return {"rushlight/_C/__init__.pyi": stub(rows)}
