// few_rows_args.h: arguments of few_rows.cu, for the host and the kernels.
#pragma once

#include "functors/types.h"

namespace rush {

// Products of the same rows by several matrices.
inline constexpr int kMostFactors = 4;
struct FewRowsArgs {
  struct Factor {
    const void* b;
    const void* bias;  // or null
    void* out;
    i64 n, b_col, out_row, out_col;
    int each;        // elements of a column that a warp takes
    int shift;       // 1 << shift warps share a column
    unsigned first;  // the block that begins with it
  };
  const void* a;
  i64 a_row, rows, k;
  int count;
  Factor factors[kMostFactors];
};

}  // namespace rush
