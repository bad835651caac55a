// optimizer_tables.h: what the kernel file for optimisers exports: one loop per rule and type.
#pragma once

#include <cstdint>

#include "cpu/kernels/tables.h"
#include "functors/optimizer.h"

namespace rush {

// n elements end to end: the parameter, its gradient, its states.
using OptimizerFn = void (*)(char* const* ptrs, int64_t n, const double* numbers);
struct OptimizerEntry {
  OptimizerFn fn;
  int states, numbers;
};
struct OptimizerTable {
  OptimizerEntry rules[kOptimizerRules];
};

// Loops of multi_tensor ops.
struct ListKernels {
  double (*sum_of_powers)(const char* x, int64_t n, double p);  // p 2 and 1 are fast; inf: the max
  void (*scale)(char* x, int64_t n, double factor);
  // x *= factor; false when an element was, or became, nan or infinite.
  bool (*unscale)(char* x, int64_t n, double factor);
};

template <Isa isa, class T>
const OptimizerTable* optimizer_table();
template <Isa isa, class T>
const ListKernels* list_kernels();

}  // namespace rush
