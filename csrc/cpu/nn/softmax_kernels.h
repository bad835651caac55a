// softmax_kernels.h: the loops of kernels/softmax_tables.h for the CPU at hand.
#pragma once

#include "cpu/isa_table.h"
#include "cpu/kernels/softmax_tables.h"

namespace rush {

template <class T>
const SoftmaxTable<T>& softmax_kernels() {
  return kernels_in_use([]<Isa isa>() { return softmax_table<isa, T>(); });
}

}  // namespace rush
