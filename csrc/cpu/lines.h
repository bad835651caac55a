// lines.h: the loops of kernels/lines_tables.h for the CPU at hand.
#pragma once

#include "cpu/isa_table.h"
#include "cpu/kernels/lines_tables.h"

namespace rush {

template <class T>
const LinesTable<T>& line_kernels() {
  return kernels_in_use([]<Isa isa>() { return lines_table<isa, T>(); });
}

}  // namespace rush
