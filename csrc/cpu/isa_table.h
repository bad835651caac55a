// isa_table.h: the table of kernels for the instruction set in use.
#pragma once

#include "core/cpu_features.h"
#include "cpu/kernels/tables.h"

namespace rush {

// Kernel files define a table per instruction set; `table` is a lambda that names them:
//
//   kernels_in_use([]<Isa isa>() { return norm_table<isa, T>(); })
template <class Named>
const auto& kernels_in_use(Named table) {
  using Pointer = decltype(table.template operator()<Isa::baseline>());
  static const PerIsa<Pointer> tables([&]([[maybe_unused]] IsaLevel level) {
#ifdef __x86_64__
    if (level == IsaLevel::Avx512) return table.template operator()<Isa::avx512>();
    if (level == IsaLevel::Avx2) return table.template operator()<Isa::avx2>();
#endif
    return table.template operator()<Isa::baseline>();
  });
  return *tables.now();
}

}  // namespace rush
