"""Reads the op table: the rows of csrc/ops/<family>.yaml, checked and turned into data classes.

docs/adding_an_op.md describes the format. Everything the other modules know about an op comes
from here; a bad row raises TableError, which says where it stands and what is wrong.
"""

import re
from dataclasses import replace
from pathlib import Path

import docstrings
import row_keys
import yaml
from formula import parse_profile
from row import ARG_KINDS, IDENTIFIER, Arg, Kernel, Row, TableError

RESULT_KINDS = ("Tensor", "Tensor[]", "Scalar", "bool", "int", "float", "DType")
FORMS = ("function", "method", "inplace", "out", "internal")
KINDS = ("compute", "view", "composite", "mutate")
ROW_KEYS = (
    *("func", "forms", "kind", "op", "cpp_name", "alias", "varargs", "hidden", "kernel"),
    *("autocast", "batch", "python", "profile", "doc"),
    *("args", *docstrings.KEYS),
)
DTYPES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 "
    "float16 bfloat16 float32 float64 complex64 complex128 "
    "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu complex32"
).split()
# What a `kernel:` key may name; float16, bfloat16 and the float8 types run through float,
# complex32 through complex64.
DTYPE_GROUPS = {
    "bool": ("bool",),
    "integral": ("u8", "i8", "i16", "i32", "i64"),
    "wide_unsigned": ("u16", "u32", "u64"),
    "floating": ("f32", "f64"),
    "complex": ("c64", "c128"),
    "float8": ("f8",),
}
# The class of a kernel, the first word of the key: of the loops that are vectorised, of the special
# functions (with their number of inputs), which are too long for that; or "fold", a reduction.
ARITIES = ("unary", "binary", "ternary")
SPECIAL = {"special_unary": 1, "special_binary": 2}
MEMORY_FORMATS = {
    "contiguous_format": "Contiguous",
    "preserve_format": "Preserve",
    "channels_last": "ChannelsLast",
    "channels_last_3d": "ChannelsLast3d",
}
MAX_ARGS = 32  # kMaxArgs of csrc/bindings/call/parse.h

FUNC = re.compile(r"(\w+)(?:\.(\w+))?\s*\((.*)\)\s*->\s*(.+)\Z", re.S)
INT_LIST = re.compile(r"int\[(\d*)\]\Z")
NUMBER = re.compile(r"-?(\d+\.?\d*(e-?\d+)?|inf|nan)\Z")


def split_top(text):
    """Splits at commas that stand in no bracket or quote."""
    parts, depth, quote, start = [], 0, "", 0
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [p.strip() for p in parts if p.strip()]


def parse_type(text):
    """'int[2]?' -> the fields of Arg that describe a type."""
    base, optional, holes, count = text, False, False, 0
    if base.endswith("?"):
        base, optional = base[:-1], True
    if base == "Tensor?[]":
        base, holes = "Tensor[]", True
    if m := INT_LIST.match(base):
        base, count = "int[]", int(m[1] or 0)
    if base not in ARG_KINDS:
        raise TableError(f"unknown type '{text}'; known are {', '.join(ARG_KINDS)}")
    return {
        "type": text,
        "kind": ARG_KINDS[base],
        "optional": optional,
        "count": count,
        "holes": holes,
    }


def check_default(arg):
    text, kind = arg.default, arg.kind
    if text == "None":
        ok = arg.optional
    elif kind in ("Int",):
        ok = re.match(r"-?\d+\Z", text)
    elif kind in ("Float", "Scalar"):
        ok = NUMBER.match(text) or (kind == "Scalar" and text in ("True", "False"))
    elif kind == "Bool":
        ok = text in ("True", "False")
    elif kind == "Ints":
        ok = re.match(r"\[\s*(-?\d+\s*(,\s*-?\d+\s*)*)?\]\Z", text) or (
            arg.count and re.match(r"-?\d+\Z", text)
        )
    elif kind == "String":
        ok = re.match(r"'[^']*'\Z|\"[^\"]*\"\Z", text)
    elif kind == "DType":
        ok = text in DTYPES
    elif kind == "MemoryFormat":
        ok = text in MEMORY_FORMATS
    elif kind == "Operand":
        ok = NUMBER.match(text)
    else:
        ok = False
    if not ok:
        raise TableError(f"argument '{arg.name}': '{text}' is no default for {arg.type}")


def parse_arg(text, keyword_only):
    m = re.match(r"(\S+)\s+(\w+)\s*(?:=\s*(.+))?\Z", text, re.S)
    if not m:
        raise TableError(f"'{text}' is no argument; write 'type name' or 'type name=default'")
    arg = Arg(name=m[2], keyword_only=keyword_only, default=m[3], **parse_type(m[1]))
    if arg.default is not None:
        check_default(arg)
    return arg


def parse_args(text):
    args, keyword_only = [], False
    for part in split_top(text):
        if part == "*":
            keyword_only = True
            continue
        arg = parse_arg(part, keyword_only)
        if any(a.name == arg.name for a in args):
            raise TableError(f"two arguments are called '{arg.name}'")
        if arg.name == "out":
            raise TableError("'out' is added by the form 'out'; leave it out of the signature")
        if args and arg.default is None and not keyword_only and args[-1].default is not None:
            raise TableError(f"argument '{arg.name}' needs a default, as the one before it has one")
        args.append(arg)
    if len(args) + 1 > MAX_ARGS:
        raise TableError(f"{len(args)} arguments; at most {MAX_ARGS - 1} are possible")
    return tuple(args)


def parse_results(text):
    text = text.strip()
    parts = split_top(text[1:-1]) if text.startswith("(") and text.endswith(")") else [text]
    types, names = [], []
    for part in parts:
        kind, _, name = part.partition(" ")
        if kind not in RESULT_KINDS:
            raise TableError(f"unknown result '{part}'; known are {', '.join(RESULT_KINDS)}")
        types.append(kind)
        names.append(name.strip())
    if not types:
        raise TableError("the result is missing")
    if any(names) and not all(names):
        raise TableError("name all results or none")
    if len(types) > 1 and set(types) != {"Tensor"}:
        raise TableError("several results must all be tensors")
    return tuple(types), tuple(n for n in names if n) if len(types) > 1 else ()


def parse_kernel(text):
    body, _, result = text.partition("->")
    result = result.strip() or "same"
    words = body.split()
    m = re.match(r"(\w+)(?:\((\d+)\))?\Z", words[1]) if len(words) >= 2 else None
    if not m or words[0] not in (*ARITIES, *SPECIAL, "fold"):
        known = ", ".join((*ARITIES, *SPECIAL, "fold"))
        raise TableError(
            f"kernel '{text}': write e.g. 'unary Exp floating complex'; classes are {known}"
        )
    if result not in ("same", "bool", "real"):
        raise TableError(f"kernel '{text}': the result is 'bool', 'real' or left out")
    for group in words[2:]:
        if group not in DTYPE_GROUPS:
            known = ", ".join(DTYPE_GROUPS)
            raise TableError(f"kernel '{text}': unknown group '{group}'; known are {known}")
    if not words[2:]:
        raise TableError(f"kernel '{text}': name at least one group of types")
    return Kernel(words[0], m[1], int(m[2] or 0), tuple(words[2:]), result.capitalize())


def camel(name):
    return "".join(p[:1].upper() + p[1:] for p in name.split("_") if p)


def parse_func(text):
    """The signature alone: name, overload, args, results, result names."""
    m = FUNC.match(text.strip())
    if not m:
        raise TableError("'func' must read 'name(type arg, ...) -> result'")
    types, names = parse_results(m[4])
    return m[1], m[2] or "", parse_args(m[3]), types, names


def words_of(value):
    return value.split() if isinstance(value, str) else [str(v) for v in value]


def parse_row(data, family, where):
    if not isinstance(data, dict) or "func" not in data:
        raise TableError("a row is a mapping with the key 'func'")
    for key in data:
        if key not in ROW_KEYS:
            raise TableError(f"unknown key '{key}'; known are {', '.join(ROW_KEYS)}")
    name, overload, args, results, result_names = parse_func(data["func"])
    kind = data.get("kind", "compute")
    if kind not in KINDS:
        raise TableError(f"unknown kind '{kind}'; known are {', '.join(KINDS)}")
    forms = words_of(data.get("forms", "method" if kind == "mutate" else "function method"))
    for form in forms:
        if form not in FORMS:
            raise TableError(f"unknown form '{form}'; known are {', '.join(FORMS)}")
    kernels = data.get("kernel", [])
    row = Row(
        where=where,
        family=family,
        name=name,
        overload=overload,
        args=args,
        results=results,
        result_names=result_names,
        forms=frozenset(forms),
        kind=kind,
        struct=data.get("op") or camel(name) + camel(overload),
        aliases=tuple(words_of(data.get("alias", []))),
        varargs=bool(data.get("varargs", False)),
        hidden=bool(data.get("hidden", False)),
        kernels=tuple(
            parse_kernel(k) for k in ([kernels] if isinstance(kernels, str) else kernels)
        ),
        cpp_name=str(data.get("cpp_name", "")),
        doc=" ".join(str(data.get("doc", "")).split()),
    )
    check_row(row)
    return with_further_keys(row, data)


def with_further_keys(row, data):
    """The row with the keys that say how autocast, vmap, Python and profilers treat the op."""
    autocast = row_keys.parse_autocast(data["autocast"], row) if "autocast" in data else {}
    batch = row_keys.parse_batch(data["batch"], row) if "batch" in data else None
    if "python" in data:
        places, through = row_keys.parse_python(data["python"], row)
    else:
        places, through = row_keys.default_python(row)
    profile = parse_profile(data["profile"], row) if "profile" in data else {}
    return replace(
        row,
        autocast=tuple(sorted(autocast.items())),
        batch=row_keys.default_batch(row) if batch is None else batch,
        places=places,
        through=through,
        told=docstrings.parse_told(data, row),
        profile=tuple((key, f.cpp) for key, f in sorted(profile.items())),
    )


def check_row(row):
    for name in (row.name, row.struct, *row.aliases, row.cpp_name or row.name):
        if not IDENTIFIER.match(name.split("::")[-1]):
            raise TableError(f"'{name}' is no name")
    if not row.doc:
        raise TableError("'doc' is missing: one line that says what the op does")
    # An Operand may be self, too: a method's object is a tensor, a function's may be a number.
    first_is_tensor = bool(row.args) and row.args[row.self_index].kind in ("Tensor", "Operand")
    if row.forms & {"method", "inplace"} and not first_is_tensor:
        raise TableError("a method or in-place form needs 'Tensor self' among the arguments")
    if row.kind in ("compute", "view", "mutate") and set(row.results) != {"Tensor"}:
        raise TableError(f"kind '{row.kind}' returns tensors; use kind 'composite'")
    if row.kind == "mutate" and (not row.name.endswith("_") or row.forms & {"inplace", "out"}):
        raise TableError("kind 'mutate' has a name that ends in '_' and no form 'inplace' or 'out'")
    if row.kind == "view" and "out" in row.forms:
        raise TableError("a view has no form 'out'")
    if "out" in row.forms and set(row.results) != {"Tensor"}:
        raise TableError("the form 'out' needs tensors as results")
    if "inplace" in row.forms and (row.results != ("Tensor",) or row.self_index != 0):
        raise TableError("the form 'inplace' needs self first and one tensor as result")
    if row.varargs and not any(a.kind == "Ints" for a in row.args):
        raise TableError("'varargs' needs an int[] argument")


def load(path):
    """All rows of one file."""
    path = Path(path)
    try:
        data = yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as e:
        raise TableError(f"{path.name}: {e}") from None
    # Of a family that no other one calls in C++, or hardly any: a new row compiles few files again.
    own_header = bool(data) and data[0] == {"own_header": True}
    rows = []
    for i, item in enumerate((data or [])[own_header:], 1):
        func = str(item.get("func", "?")) if isinstance(item, dict) else "?"
        where = f"{path.name}, row {i} ({func.split('(')[0].strip()})"
        try:
            rows.append(replace(parse_row(item, path.stem, where), own_header=own_header))
        except TableError as e:
            raise TableError(f"{where}: {e}") from None
    return rows


def load_all(paths):
    """Rows of all files; checks what only the whole table can tell."""
    rows = [row for path in sorted(paths, key=lambda p: Path(p).name) for row in load(path)]
    seen = {}
    for row in rows:
        for name in row.names:
            key = (name, row.overload)
            if key in seen:
                raise TableError(f"{row.where}: '{name}' stands already in {seen[key]}; "
                                 "tell overloads apart by 'name.suffix(...)'")  # fmt: skip
            seen[key] = row.where
    check_structs(rows)
    row_keys.check_overloads(rows)
    return rows


def check_structs(rows):
    """Blocks of all families share one namespace: two of one name would be merged by the linker."""
    owners = {}
    for row in rows:
        other = owners.setdefault(row.struct, row)
        if other is not row:
            raise TableError(f"{row.where}: the block '{row.struct}' belongs to {other.where}; "
                             "name another with 'op:'")  # fmt: skip
