"""The ops as PyTorch's C++ interface has them, for extensions: frontend/torch_methods.inc inside
of the class Tensor, frontend/torch_functions.inc beside it (csrc/frontend/torch)."""

from dataclasses import replace

from cpp_types import KEYWORDS, cpp_default, param_name, param_type, result_type
from emit_ops import HEADER, Entry, is_method, own_entries
from row import Arg, Row

TYPES = {
    "Tensor": "const Tensor&",
    "Operand": "const Operand&",
    "Tensors": "TensorList",
    "Floats": "ArrayRef<double>",
    "Device": "Device",
    "String": "const Text&",
}
OPTIONAL = {"Ints": "OptionalIntArrayRef", "DType": "std::optional<ScalarType>",
            "Device": "std::optional<Device>"}  # fmt: skip
REQUIRED = {"Ints": "IntArrayRef", "DType": "ScalarType"}
RESULTS = {"Tensor": "Tensor", "std::vector<Tensor>": "std::vector<Tensor>", "Scalar": "Scalar",
           "bool": "bool", "int64_t": "int64_t", "double": "double",
           "DType": "ScalarType"}  # fmt: skip
# Written by hand in csrc/frontend/torch.
BY_HAND = frozenset(
    "to item requires_grad_ requires_grad cpu cuda type_as new_empty new_zeros new_ones new_full "
    "is_floating_point dtype device sizes strides size stride dim numel data grad backward empty "
    "is_contiguous is_complex element_size storage_offset is_leaf tensor scalar_tensor".split()
)
# Methods that take more than tensors, written by hand as well.
INDEXING = ("index", "index_put_")


def parameter_type(arg: Arg) -> str:
    if arg.kind in TYPES and not (arg.kind in ("Device", "String") and arg.optional):
        return TYPES[arg.kind]
    table = OPTIONAL if arg.optional else REQUIRED
    return table.get(arg.kind) or param_type(arg)


def parameters(args) -> str:
    parts, open_tail = [], True
    for arg in reversed(args):
        default = cpp_default(arg) if open_tail else None
        open_tail = default is not None
        text = f"{parameter_type(arg)} {param_name(arg)}"
        parts.append(f"{text} = {default}" if default else text)
    return ", ".join(reversed(parts))


def argument(arg: Arg) -> str:
    name = param_name(arg)
    if arg.kind == "Tensors":
        return f"detail::list({name})"
    if arg.kind == "Operand":
        return f"{name}.tensor()"
    if arg.kind == "String" and not arg.optional:
        return f"{name}.view()"
    if arg.kind == "Ints" and arg.optional:
        return f"std::optional<IntList>({name})"
    return f"IntList({name})" if arg.kind == "Ints" else name


def result(row: Row) -> str | None:
    """The type, or None where there is none for it here."""
    cpp = result_type(row)
    if cpp.startswith("std::tuple"):
        return cpp if set(row.results) == {"Tensor"} else None
    return RESULTS.get(cpp)


def is_served(row: Row, entry: Entry) -> bool:
    if row.name in BY_HAND or row.name in KEYWORDS or row.own_header or "internal" in row.forms:
        return False
    if row.name.startswith("_") or any(a.kind in ("Layout", "Generator") for a in row.args):
        return False
    return entry.form != "Out" and result(row) is not None


def body(entry: Entry, args: list[str], owner: str) -> str:
    row = entry.row
    call = f"rush::{entry.function}({', '.join(args)})"
    if entry.form == "InPlace":
        return f"{{ {call}; return {owner}; }}"
    if result(row) == "std::vector<Tensor>":
        call = f"detail::list({call})"
    return f"{{ return {call}; }}"


def returned(entry: Entry) -> str:
    return "const Tensor&" if entry.form == "InPlace" else result(entry.row)


def method(entry: Entry) -> str:
    row = entry.row
    rest = [a for i, a in enumerate(row.args) if i != row.self_index]
    args = ["*this" if i == row.self_index else argument(a) for i, a in enumerate(row.args)]
    code = body(entry, args, "*this")
    return f"{returned(entry)} {entry.name}({parameters(rest)}) const {code}"


def function(entry: Entry) -> str:
    args, owner = list(entry.row.args), ""
    if entry.form == "InPlace":  # what is written to is a tensor
        at = entry.row.self_index
        args[at], owner = replace(args[at], kind="Tensor"), param_name(args[at])
    code = body(entry, [argument(a) for a in args], owner)
    return f"inline {returned(entry)} {entry.name}({parameters(args)}) {code}"


def outputs(rows) -> dict[str, str]:
    methods, functions = [HEADER], [HEADER]
    for row in rows:
        for entry in own_entries(row):
            if not is_served(row, entry):
                continue
            if is_method(row, entry) and row.self_index is not None and entry.name not in INDEXING:
                methods.append(method(entry))
            if "function" in row.forms and row.args:
                functions.append(function(entry))
    return {
        "frontend/torch_methods.inc": "\n".join([*methods, ""]),
        "frontend/torch_functions.inc": "\n".join([*functions, ""]),
    }
