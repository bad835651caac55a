// lines.h: the loops of kernels/lines_tables.h for the CPU at hand.
#pragma once

#include "core/cpu_features.h"
#include "cpu/kernels/lines_tables.h"

namespace rush {

template <class T>
const LinesTable<T>& line_kernels() {
  static const PerIsa<const LinesTable<T>*> chosen([]([[maybe_unused]] IsaLevel level) {
    const LinesTable<T>* t = lines_table<Isa::baseline, T>();
#ifdef __x86_64__
    if (level >= IsaLevel::Avx2) t = lines_table<Isa::avx2, T>();
    if (level >= IsaLevel::Avx512) t = lines_table<Isa::avx512, T>();
#endif
    return t;
  });
  return *chosen.now();
}

}  // namespace rush
