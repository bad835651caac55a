"""How an argument or result of the table looks in C++: types, defaults, reading from a Value."""

import re

from row import Arg
from schema import MEMORY_FORMATS

KEYWORDS = frozenset(
    "and auto bool break case catch char class const continue default delete do double else enum "
    "explicit export extern false float for goto if inline int long mutable namespace new not "
    "operator or private protected public register return short signed sizeof static struct "
    "switch template this throw true try typedef typename union unsigned using virtual void "
    "volatile while xor".split()
)

# kind -> (C++ type, C++ type where None is allowed, reader, reader where None is allowed).
TYPES = {
    "Tensor": ("const Tensor&", "const Tensor&", "tensor", "tensor"),
    "Operand": ("const Tensor&", "const Tensor&", "tensor", "tensor"),
    "Tensors": ("TensorList", "TensorList", "tensors", "tensors"),
    "Scalar": ("const Scalar&", "std::optional<Scalar>", "scalar", "optional_scalar"),
    "Int": ("int64_t", "std::optional<int64_t>", "integer", "optional_integer"),
    "Ints": ("IntList", "std::optional<IntList>", "ints", "optional_ints"),
    "Float": ("double", "std::optional<double>", "real", "optional_real"),
    "Floats": ("std::span<const double>", "std::span<const double>", "floats", "floats"),
    "Bool": ("bool", "std::optional<bool>", "boolean", "optional_boolean"),
    "String": ("std::string_view", "std::optional<std::string_view>", "string", "optional_string"),
    "DType": ("DType", "std::optional<DType>", "dtype", "optional_dtype"),
    "Device": ("Device", "std::optional<Device>", "device", "optional_device"),
    "Layout": ("Layout", "std::optional<Layout>", "layout", "optional_layout"),
    "MemoryFormat": ("MemoryFormat", "std::optional<MemoryFormat>", "memory_format",
                     "optional_memory_format"),
    "Generator": ("Generator*", "Generator*", "generator", "generator"),
}  # fmt: skip

RESULTS = {
    "Tensor": "Tensor",
    "Tensor[]": "std::vector<Tensor>",
    "Scalar": "Scalar",
    "bool": "bool",
    "int": "int64_t",
    "float": "double",
    "DType": "DType",
}
DTYPE_NAMES = {"bool": "Bool", "bfloat16": "BFloat16"}


def param_name(arg: Arg) -> str:
    return arg.name + "_" if arg.name in KEYWORDS else arg.name


def param_type(arg: Arg) -> str:
    return TYPES[arg.kind][1 if arg.optional else 0]


def reader(arg: Arg, index: int) -> str:
    return f"a[{index}].{TYPES[arg.kind][3 if arg.optional else 2]}()"


def result_type(row) -> str:
    if len(row.results) == 1:
        return RESULTS[row.results[0]]
    return f"std::tuple<{', '.join(RESULTS[r] for r in row.results)}>"


def dtype_name(text: str) -> str:
    """'uint8' -> 'UInt8'."""
    if text in DTYPE_NAMES:
        return DTYPE_NAMES[text]
    return text[:2].upper() + text[2:] if text.startswith("u") else text[0].upper() + text[1:]


def int_items(arg: Arg) -> list[str]:
    """The numbers of an int[] default; one int stands for `count` of them."""
    text = arg.default.strip()
    if text.startswith("["):
        return [t.strip() for t in text[1:-1].split(",") if t.strip()]
    return [text] * arg.count


def number(text: str) -> str:
    if text in ("inf", "-inf"):
        return text.replace("inf", "std::numeric_limits<double>::infinity()")
    if text == "nan":
        return "std::numeric_limits<double>::quiet_NaN()"
    return {"True": "true", "False": "false"}.get(text, text)


def literal(arg: Arg) -> str:
    """A default that is not None, as a C++ expression of the value's own type."""
    text, kind = arg.default, arg.kind
    if kind == "Int":
        return f"int64_t({text})"
    if kind == "Float":
        return f"double({number(text)})"
    if kind in ("Scalar", "Operand"):
        is_int = re.match(r"-?\d+\Z", text)
        return f"Scalar(int64_t({text}))" if is_int else f"Scalar({number(text)})"
    if kind == "Bool":
        return number(text)
    if kind == "String":
        return f'std::string_view("{text[1:-1]}")'
    if kind == "DType":
        return f"DType::{dtype_name(text)}"
    if kind == "MemoryFormat":
        return f"MemoryFormat::{MEMORY_FORMATS[text]}"
    raise AssertionError(f"no literal for {arg}")


def cpp_default(arg: Arg) -> str | None:
    """The default argument of the C++ declaration; None where there is none."""
    if arg.default is None:
        return None
    if arg.default == "None":
        if arg.kind == "Generator":
            return "nullptr"
        return "std::nullopt" if param_type(arg).startswith("std::optional") else "{}"
    if arg.kind == "Ints":
        items = int_items(arg)
        return f"std::array<int64_t, {len(items)}>{{{', '.join(items)}}}" if items else "IntList{}"
    if arg.kind == "Operand":
        return f"wrap_number({literal(arg)})"
    return literal(arg)


def params(args, defaults: bool) -> str:
    """The parameter list; defaults only where all later ones have one, as C++ wants it."""
    parts, open_tail = [], defaults
    for arg in reversed(args):
        default = cpp_default(arg) if open_tail else None
        open_tail = default is not None
        text = f"{param_type(arg)} {param_name(arg)}"
        parts.append(f"{text} = {default}" if default else text)
    return ", ".join(reversed(parts))


def maker_body(arg: Arg) -> str | None:
    """The body of a function that makes the default as a Value; None when there is none."""
    if arg.default in (None, "None"):
        return None
    if arg.kind == "Ints":
        items = int_items(arg)
        if not items:
            return "v.borrow(IntList{})"
        return (f"static constexpr int64_t list[] = {{{', '.join(items)}}}; "
                "v.borrow(IntList(list))")  # fmt: skip
    if arg.kind == "Operand":
        return f"v.own(wrap_number({literal(arg)}))"
    return f"v.{'borrow' if arg.kind == 'String' else 'set'}({literal(arg)})"
