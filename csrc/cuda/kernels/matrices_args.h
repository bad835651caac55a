// matrices_args.h: the arguments of matrices.cu.
#pragma once

#include "cuda/kernels/args.h"

namespace rush {

struct PermutationArgs {
  i64 count, rows, exchanges;  // a matrix's
  const i32* pivots;           // from 1
  i64* out;
};

struct FormQArgs {
  i64 count, rows, cols, reflections;
  void* a;  // matrices column by column, one after the other
  const void* tau;
};

}  // namespace rush
