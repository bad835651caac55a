"""Pointwise kernels from the `kernel:` keys: enumerators, CPU kernel files, facts for CUDA."""

import json

from emit_ops import HEADER
from schema import ARITIES, DTYPE_GROUPS, DTYPES, TableError

TYPES = tuple(t for group in DTYPE_GROUPS.values() for t in group)
# "f32" -> the dtypes that compute in it.
COMPUTES = {t: [{"b": "bool", "u": "uint", "i": "int", "f": "float", "c": "complex"}[t[0]] + t[1:]]
            for t in TYPES if t != "bool"}  # fmt: skip
COMPUTES |= {"bool": ["bool"], "f32": ["float32", "float16", "bfloat16"]}
COMPUTES["c64"].append("complex32")
COMPUTES["f8"] = [d for d in DTYPES if d.startswith("float8")]


def collect(rows):
    """arity -> functor -> (params, result, types). Rows may share a functor: groups add up."""
    table = {arity: {} for arity in ARITIES}
    for row in rows:
        for k in row.kernels:
            if k.arity not in ARITIES:
                continue
            types = {t for group in k.groups for t in DTYPE_GROUPS[group]}
            params, result, known = table[k.arity].setdefault(
                k.functor, (k.params, k.result, set())
            )
            if (params, result) != (k.params, k.result):
                raise TableError(
                    f"{row.where}: the {k.arity} kernel {k.functor} has {k.params} parameters and "
                    f"result {k.result} here, but {params} and {result} in an earlier row"
                )
            known |= types
    return {arity: dict(sorted(fns.items())) for arity, fns in table.items()}


def type_mask(types) -> str:
    """One bit per dtype, in the order of DType in csrc/core/dtype.h."""
    return hex(sum(1 << DTYPES.index(d) for t in types for d in COMPUTES[t]))


def header(table) -> str:
    lines = [
        HEADER + "// fns.h: the numbers of the pointwise functors, indices of kernel tables.",
        "#pragma once\n\n#include <cstdint>\n\nnamespace rush {\n",
        "enum class FnResult : uint8_t { Same, Bool, Real };",
        "struct FnInfo {\n  const char* name;  // of the functor in csrc/functors\n"
        "  uint8_t params;\n  FnResult result;\n"
        "  uint32_t types;  // a bit for each dtype it takes\n};",
    ]
    for arity, fns in table.items():
        enum = f"{arity.capitalize()}Fn"
        names = "".join(f"  {name},\n" for name in fns)
        lines.append(f"\nenum class {enum} : uint16_t {{\n{names}  kCount,\n}};")
        infos = "".join(
            f'    {{"{name}", {params}, FnResult::{result}, {type_mask(types)}}},\n'
            for name, (params, result, types) in fns.items()
        )
        # The last one has no name, so that the array is never empty.
        lines.append(
            f"inline constexpr FnInfo k{enum}s[] = {{\n{infos}"
            "    {nullptr, 0, FnResult::Same, 0},\n};"
        )
        lines.append(f"constexpr const FnInfo& info({enum} f) {{ return k{enum}s[int(f)]; }}")
    return "\n".join([*lines, "\n}  // namespace rush", ""])


# Which types share a kernel file. The ends of the names say how they are compiled: see
# cmake/kernels.cmake.
FILES = {
    "f32": ("f32",),
    "f64": ("f64",),
    "int_narrow": ("bool", "u8", "i8", "i16", "i32", "i64"),
    "wide_unsigned_portable": ("u16", "u32", "u64"),
    "complex_portable": ("c64", "c128"),
}
CPP_TYPES = {"bool": "bool", "f32": "float", "f64": "double",
             "c64": "complex<float>", "c128": "complex<double>"}  # fmt: skip


def kernel_table(arity, fns, dtype) -> str:
    """The table of one type's loops, for the instruction set that the file is compiled for."""
    enum = f"{arity.capitalize()}Fn"
    cpp = CPP_TYPES.get(dtype) or f"{COMPUTES[dtype][0]}_t"
    entries = "".join(
        f"  RUSH_ENTRY({name}, {params}, {result})\n"
        for name, (params, result, types) in fns.items()
        if dtype in types
    )
    return (
        f"namespace RUSH_ISA {{\nnamespace {{\nconstexpr Table<{enum}> k_{dtype} = [] {{\n"
        f"  using Fn [[maybe_unused]] = {enum};\n  using T [[maybe_unused]] = {cpp};\n"
        f"  [[maybe_unused]] constexpr int kArity = {ARITIES.index(arity) + 1};\n"
        f"  Table<{enum}> t;\n{entries}  return t;\n}}();\n}}  // namespace\n"
        f"}}  // namespace RUSH_ISA\n\ntemplate <>\n"
        f"const Entry* kernel_table<Isa::RUSH_ISA, {enum}, {cpp}>() {{\n"
        f"  return RUSH_ISA::k_{dtype}.entries;\n}}\n"
    )


def kernel_file(arity, fns, types) -> str:
    tables = "\n".join(kernel_table(arity, fns, dtype) for dtype in types)
    return (
        HEADER + '#include "cpu/kernels/entry.h"\n\nnamespace rush {\n\n'
        f"{tables}\n}}  // namespace rush\n"
    )


def facts(table) -> str:
    data = {
        arity: [
            {
                "functor": name,
                "params": params,
                "result": result.lower(),
                "types": [t for t in TYPES if t in types and t != "f8"],
            }
            for name, (params, result, types) in fns.items()
        ]
        for arity, fns in table.items()
    }
    return json.dumps(data, indent=1) + "\n"


def functor_list(arity, fns) -> str:
    """For what asks every functor of so many inputs a question: RUSH_BINARY says which."""
    return HEADER + "".join(f"RUSH_{arity.upper()}({name})\n" for name in fns)


def outputs(rows) -> dict[str, str]:
    table = collect(rows)
    files = {
        "functors/fns.h": header(table),
        "functors/unary_fns.inc": functor_list("unary", table["unary"]),
        "functors/binary_fns.inc": functor_list("binary", table["binary"]),
        "cuda/pointwise.json": facts(table),
    }
    for arity, fns in table.items():
        for name, types in FILES.items():
            files[f"cpu/kernels/{arity}_{name}.cpp"] = kernel_file(arity, fns, types)
    return files
