// odd_rows_args.h: arguments of odd_rows.cu, for the host and the kernels.
#pragma once

#include "functors/types.h"

namespace rush {

struct OddRowsArgs {
  const void* from;
  void* to;
  i64 from_step, to_step;  // from row to row, in elements
  i64 rows;                // that are read; those after them are zero
  i32 width, written;      // of a row; what is written past its width is zero
};

inline constexpr int kOddRowsEach = 8;  // elements of a thread

}  // namespace rush
