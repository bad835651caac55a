// triangle_args.h: the arguments of triangle.cu.
#pragma once

#include "cuda/kernels/args.h"

namespace rush {

struct TriangleArgs {
  i64 n;
  void* out;
  const void* x;
  i64 diagonal;
  bool upper;
};

// Row r holds columns first(r) to last(r) - 1; out: all rows' numbers, then all columns'.
struct TriangleIndexArgs {
  i64 n, rows, cols, diagonal;
  void* out;
  bool upper;
};

}  // namespace rush
