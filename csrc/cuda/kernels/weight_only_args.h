// weight_only_args.h: the arguments of weight_only.cu.
#pragma once

#include "cuda/kernels/args.h"

namespace rush {

inline constexpr int kColumnsEach = 8;   // of a block
inline constexpr int kRowsOfTile = 16;   // of x
inline constexpr int kMostRowTiles = 4;  // of one launch

struct WeightOnlyArgs {
  const void *x, *w, *scales;  // scales: and zeros, for 4 bits
  void* out;
  i64 m, n, k;
  i32 group;  // 4 bits: numbers that share a scale, a multiple of 32
};

}  // namespace rush
