"""A row of the op table, as the other modules see it."""

import re
from dataclasses import dataclass, field, replace

# How the table spells a type -> the ArgKind of csrc/ops/framework/registry.h.
ARG_KINDS = {
    "Tensor": "Tensor",
    "Operand": "Operand",
    "Tensor[]": "Tensors",
    "Scalar": "Scalar",
    "int": "Int",
    "int[]": "Ints",
    "float": "Float",
    "float[]": "Floats",
    "bool": "Bool",
    "str": "String",
    "DType": "DType",
    "Device": "Device",
    "Layout": "Layout",
    "MemoryFormat": "MemoryFormat",
    "Generator": "Generator",
}
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class TableError(Exception):
    """A row of the table that cannot be read; the text says where and why."""


@dataclass(frozen=True)
class Arg:
    name: str
    type: str  # as the table spells it
    kind: str  # a value of ARG_KINDS
    optional: bool = False  # None is accepted
    keyword_only: bool = False
    count: int = 0  # int[N]: one int stands for N of them
    holes: bool = False  # Tensor?[]: an element may be None
    default: str | None = None  # as the table spells it; None: required


@dataclass(frozen=True)
class Told:
    """The keys of a row that only readers need."""

    args: tuple[tuple[str, str], ...] = ()
    about: str = ""
    returns: str = ""
    raises: str = ""
    differs: str = ""
    example: str = ""


@dataclass(frozen=True)
class Row:
    where: str  # "unary.yaml, row 3 (exp)"
    family: str
    name: str
    overload: str
    args: tuple[Arg, ...]
    results: tuple[str, ...]  # types, one each
    result_names: tuple[str, ...]  # empty, or one each
    forms: frozenset[str]
    kind: str
    struct: str
    aliases: tuple[str, ...] = ()
    varargs: bool = False
    hidden: bool = False  # accepted, but shown in no signature
    kernels: tuple["Kernel", ...] = field(default=())
    cpp_name: str = ""  # where the core has another function of the op's name
    doc: str = ""  # the summary; `told` has the rest of the text
    told: Told = field(default=Told())
    # The next five are read by row_keys.py and formula.py.
    autocast: tuple[tuple[str, str], ...] = ()  # (device, policy)
    batch: str = ""  # a function of csrc/ops/vmap/batch_rules.h
    places: tuple[tuple[str, str, str], ...] = ()  # (place, public name, op): public as it is
    through: tuple[str, ...] = ()  # the functions written in Python that make it public
    profile: tuple[tuple[str, str], ...] = ()  # ("flops", a formula in C++)
    own_header: bool = False  # its C++ functions stand in ops/<family>_ops.h, not in ops/ops.h

    @property
    def names(self):
        return (self.name, *self.aliases)

    @property
    def pointwise(self):
        return any(k.arity != "fold" for k in self.kernels)

    @property
    def self_index(self):
        """Where a method call puts its object: `where(condition, self, other)` has it second."""
        return next((i for i, a in enumerate(self.args) if a.name == "self"), 0)


@dataclass(frozen=True)
class Kernel:
    arity: str  # unary, binary, ternary, special_unary, special_binary, fold
    functor: str
    params: int
    groups: tuple[str, ...]
    result: str  # Same, Bool, Real


def in_place_name(name):
    return name if name.endswith("_") else name + "_"


def out_arg(row):
    """The argument that the out form adds at the end."""
    kind = "Tensor" if len(row.results) == 1 else "Tensor[]"
    return Arg(name="out", type=kind + "?", kind=ARG_KINDS[kind], keyword_only=True, optional=True,
               default="None")  # fmt: skip


def with_out(row):
    return replace(row, args=(*row.args, out_arg(row)))
