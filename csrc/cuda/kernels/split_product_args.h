// split_product_args.h: arguments of split_product_hopper.cu, for the host and the kernel.
#pragma once

#include "functors/types.h"

namespace rush {

// out (m x n) = beta * out + alpha * a (m x k) @ b (k x n) + bias, then relu if asked for.
inline constexpr int kSplitRows = 128, kSplitColumns = 128;  // of the tile that a block computes
struct SplitProductArgs {
  float* out;
  const float *a, *b;
  const float* bias;            // n numbers from a multiple of 8 bytes on, or null
  i64 out_row, a_step, b_step;  // from one line of a matrix to the next, in elements
  i64 out_batch, a_batch, b_batch;
  float* parts;       // where the sums of several parts of k go, each (batches x m x n); or null
  i32 m, n, k, part;  // part: how much of k a block takes, a multiple of 32
  i32 row_tiles, column_tiles, parts_of_k, batches;
  i32 units;  // tiles of all parts of all batches
  i32 relu;
  float alpha, beta;
};

}  // namespace rush
