"""The docstring of an op, put together from the rows of its name.

A row says what only it can say (`doc`, `about`, `args`, `returns`, `raises`, `differs`, `example`).
What holds for every argument of a name stands in argument_texts.py, types come from the signature,
and the kind of an op says what it returns where the row does not.
"""

import re
import textwrap

from argument_texts import TEXTS
from row import TableError, Told

WIDTH = 92
KEYS = ("about", "returns", "raises", "differs", "example")
TYPES = {
    "Tensor": "Tensor",
    "Operand": "Tensor or number",
    "Tensors": "sequence of Tensors",
    "Scalar": "number",
    "Int": "int",
    "Ints": "sequence of ints",
    "Float": "float",
    "Floats": "sequence of floats",
    "Bool": "bool",
    "String": "str",
    "DType": "dtype",
    "Device": "device or str",
    "Layout": "layout",
    "MemoryFormat": "memory_format",
    "Generator": "Generator",
}


def parse_told(data, row) -> Told:
    """The keys of a row's mapping that documentation reads."""
    names = {arg.name for arg in row.args} | {"out"}
    args = data.get("args", {})
    if not isinstance(args, dict):
        raise TableError("'args' is a mapping from arguments to what they mean")
    for name in args:
        if name not in names:
            raise TableError(f"args: the op has no argument '{name}'")
    texts = {key: str(data.get(key, "")).strip() for key in KEYS}
    if texts["example"] and not texts["example"].startswith(">>> "):
        raise TableError("'example' begins with '>>> ', as an interpreter shows it")
    for key in ("about", "returns", "raises", "differs"):
        texts[key] = " ".join(texts[key].split())
    return Told(tuple((name, " ".join(str(text).split())) for name, text in args.items()), **texts)


def type_of(arg) -> str:
    text = TYPES[arg.kind]
    if arg.kind == "Ints" and arg.count:
        text = "int or " + text
    return text


def shared_meaning(arg) -> str:
    """What is said of all arguments of the name."""
    return TEXTS.get((arg.name, arg.kind)) or TEXTS.get((arg.name, ""), "")


def is_pointwise(row):
    return bool(row.kernels) and all(k.arity != "fold" for k in row.kernels)


def returned(row) -> str:
    """What the row says it returns, or what follows from its kind."""
    if row.told.returns:
        return row.told.returns
    if row.kind == "mutate" or row.name.endswith("_"):
        return "Tensor: self."
    if row.result_names:
        return f"({', '.join(row.result_names)}): a named tuple of tensors."
    if row.results == ("Tensor[]",):
        return "tuple of Tensors."
    if row.results != ("Tensor",):
        return ", ".join(r.lower() if r in ("Scalar", "DType") else r for r in row.results) + "."
    if row.kind == "view":
        return "Tensor: a view, which shares its memory with the input."
    if is_pointwise(row):
        return pointwise_result(row)
    if any(arg.name == "keepdim" for arg in row.args):
        return "Tensor: without the reduced dims, or with size 1 there if `keepdim` is set."
    return "Tensor."


def all_returned(rows) -> list[str]:
    """Of overloads; one that says nothing itself has the text of another with the same results."""
    told = {row.results for row in rows if row.told.returns}
    texts = unique(returned(row) for row in rows if row.told.returns or row.results not in told)
    says_more = any(text.startswith("Tensor: ") for text in texts)
    return [text for text in texts if text != "Tensor." or not says_more]


def pointwise_result(row) -> str:
    several = sum(arg.kind in ("Tensor", "Operand") for arg in row.args) > 1
    shape = "of the broadcast shape" if several else "of the same shape"
    if all(k.result == "Bool" for k in row.kernels):
        return f"Tensor: bool, {shape}."
    groups = {group for k in row.kernels for group in k.groups}
    if "integral" not in groups:
        return f"Tensor: {shape}; integers and bools become the default dtype."
    return f"Tensor: {shape}" + (" and promoted dtype." if several else " and dtype.")


def wrapped(text, first="", then="") -> str:
    return textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=then or first,
                         break_long_words=False, break_on_hyphens=False)  # fmt: skip


def argument_lines(calls, shown_name) -> list[str]:
    """`calls`: (row, arguments) pairs of the overloads; one line for each name among them."""
    found = {}
    for row, args in calls:
        for arg in args:
            own = dict(row.told.args).get(arg.name, "")
            found.setdefault(shown_name(arg), []).append((arg, own))
    lines = []
    for name, uses in sorted(found.items(), key=lambda item: item[0] == "out"):
        kinds = unique(type_of(arg) for arg, _ in uses)
        kinds = [k for k in kinds if not any(k != o and k in o.split(" or ") for o in kinds)]
        optional = any(arg.default is not None or arg.optional for arg, _ in uses)
        # What rows say beats what is said of all arguments of the name, of other overloads too.
        texts = unique(own for _, own in uses) or unique(
            shared_meaning(arg) for arg, _ in uses if type_of(arg) in kinds
        )
        shown = " or ".join(kinds) + (", optional" if optional else "")
        lines.append(wrapped(f"{name} ({shown}): {either(texts)}".rstrip(": "), "    ", "        "))
    return lines


def for_function(text) -> str:
    """Rows speak of self; a function's argument is called input."""
    text = re.sub(r"\bSelf\b", "The input", text)
    return re.sub(r"\bself\b", "input", text)


def unique(items):
    return list(dict.fromkeys(item for item in items if item))


def body(rows, calls, shown_name, of="") -> str:
    """Everything below the signatures; `calls` as in argument_lines; `of`: what says that the name
    is a form of another, whose docstring has the details."""
    parts = [wrapped(" ".join(unique([*(sentence(row.doc) for row in rows), of])))]
    parts += [wrapped(text) for text in unique(row.told.about for row in rows)]
    lines = argument_lines(calls, shown_name)
    if lines:
        parts.append("Arguments:\n" + "\n".join(lines))
    parts.append("Returns:\n" + wrapped(either(all_returned(rows)), "    "))
    for title, key in (("Raises", "raises"), ("Differs from PyTorch", "differs")):
        found = unique(getattr(row.told, key) for row in rows)
        if found:
            parts.append(f"{title}:\n" + wrapped(" ".join(found), "    "))
    examples = [] if of else unique(row.told.example for row in rows)
    if examples:
        parts.append("Example:\n" + textwrap.indent("\n\n".join(examples), "    "))
    return "\n\n".join(parts)


def sentence(text) -> str:
    return text if text.endswith((".", "?")) else text + "."


def either(texts) -> str:
    """What overloads say, as one sentence."""
    return "; or ".join(text.removesuffix(".") for text in texts) + "." if texts else ""
