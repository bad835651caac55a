"""Special functions from `kernel: special_unary` and `special_binary`: their numbers, facts for the
GPU's loops, and the CPU kernel file that picks a functor by number."""

from emit_ops import HEADER
from schema import SPECIAL, TableError

NUMBERS = ("first", "second")


def collect(rows):
    """functor -> (inputs, params). Rows may share a functor."""
    table = {}
    for row in rows:
        for k in row.kernels:
            if k.arity not in SPECIAL:
                continue
            if k.groups != ("floating",) or k.result != "Same" or k.params > len(NUMBERS):
                raise TableError(f"{row.where}: the special function {k.functor} takes the types "
                                 "'floating', and at most two numbers")  # fmt: skip
            facts = (SPECIAL[k.arity], k.params)
            if table.setdefault(k.functor, facts) != facts:
                raise TableError(f"{row.where}: {k.functor} has other inputs or numbers here than "
                                 "in an earlier row")  # fmt: skip
    return dict(sorted(table.items()))


def header(table) -> str:
    names = "".join(f"  {name},\n" for name in table)
    infos = "".join(f'    {{"{n}", {inputs}, {p}}},\n' for n, (inputs, p) in table.items())
    return (
        HEADER + "// special_fns.h: the numbers of the functors of functors/special.h.\n"
        "#pragma once\n\n#include <cstdint>\n\nnamespace rush {\n\n"
        f"enum class SpecialFn : uint8_t {{\n{names}  kCount,\n}};\n"
        "struct SpecialInfo {\n  const char* name;  // of the functor\n"
        "  uint8_t inputs;\n  uint8_t params;  // with some, it is a template over its type\n};\n"
        # The last one has no name, so that the array is never empty.
        f"inline constexpr SpecialInfo kSpecialFns[] = {{\n{infos}    {{nullptr, 0, 0}},\n}};\n"
        "constexpr const SpecialInfo& info(SpecialFn f) { return kSpecialFns[int(f)]; }\n\n"
        "}  // namespace rush\n"
    )


def case(name, inputs, params) -> str:
    functor = f"functors::{name}" + ("<T>" if params else "")
    arrays = "x, y" if inputs == 2 else "x"
    numbers = ", ".join(NUMBERS[:params])
    return (
        f"    case SpecialFn::{name}:\n"
        f"      return each({arrays}, out, n, {functor}{{{numbers}}});\n"
    )


def kernel_file(table) -> str:
    cases = "".join(case(name, *facts) for name, facts in table.items())
    return (
        HEADER + '#include "cpu/kernels/special_loops.h"\n\nnamespace rush::RUSH_ISA {\n'
        "namespace {\n\ntemplate <class T>\n"
        "void special(SpecialFn fn, const T* x, [[maybe_unused]] const T* y, T* out, int64_t n,\n"
        "             [[maybe_unused]] double first, [[maybe_unused]] double second) {\n"
        f"  switch (fn) {{\n{cases}    case SpecialFn::kCount:\n      return;\n  }}\n}}\n\n"
        "}  // namespace\n\n"
        "extern const SpecialKernels special_kernels = {special<float>, special<double>};\n\n"
        "}  // namespace rush::RUSH_ISA\n"
    )


def outputs(rows) -> dict[str, str]:
    table = collect(rows)
    return {
        "functors/special_fns.h": header(table),
        "cpu/kernels/special_exact.cpp": kernel_file(table),
    }
