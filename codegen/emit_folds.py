"""Reductions from `kernel: fold`: the numbers of the folds of functors/fold.h, and the CPU kernel
file that makes their loops. The GPU's kernels are spelled by the same names."""

from emit_ops import HEADER
from schema import TableError


def collect(rows):
    names = set()
    for row in rows:
        for k in row.kernels:
            if k.arity != "fold":
                continue
            if k.groups != ("floating",) or k.result != "Same" or k.params:
                raise TableError(f"{row.where}: the fold {k.functor} takes the types 'floating' "
                                 "and has no numbers of its own")  # fmt: skip
            names.add(k.functor)
    return sorted(names)


def header(names) -> str:
    enumerators = "".join(f"  {name},\n" for name in names)
    texts = "".join(f'    "{name}",\n' for name in names)
    return (
        HEADER + "// fold_fns.h: the numbers of the folds of functors/fold.h.\n"
        "#pragma once\n\n#include <cstdint>\n\nnamespace rush {\n\n"
        f"enum class FoldFn : uint8_t {{\n{enumerators}  kCount,\n}};\n"
        f"inline constexpr const char* kFoldFnNames[] = {{\n{texts}    nullptr,\n}};\n\n"
        "}  // namespace rush\n"
    )


def kernel_file(names) -> str:
    entries = "".join(f"    CpuFold<folds::{name}, T>::kernel(),\n" for name in names)
    tables = "".join(
        f"template <>\nconst FoldKernel* shared_folds<Isa::RUSH_ISA, {t}>() {{\n"
        f"  return RUSH_ISA::kSharedFolds<{t}>;\n}}\n"
        for t in ("float", "double")
    )
    return (
        HEADER + '#include "cpu/kernels/reduce_shared.h"\n\nnamespace rush {\n\n'
        "namespace RUSH_ISA {\nnamespace {\ntemplate <class T>\n"
        f"constexpr FoldKernel kSharedFolds[] = {{\n{entries}    {{}},\n}};\n"
        "}  // namespace\n}  // namespace RUSH_ISA\n\n"
        f"{tables}\n}}  // namespace rush\n"
    )


def outputs(rows) -> dict[str, str]:
    names = collect(rows)
    return {
        "functors/fold_fns.h": header(names),
        "cpu/kernels/reduce_folds.cpp": kernel_file(names),
    }
