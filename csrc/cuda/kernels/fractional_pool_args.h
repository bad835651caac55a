// fractional_pool_args.h: the arguments of fractional_pool.cu.
#pragma once

#include "cuda/kernels/args.h"

namespace rush {

// Planes of up to three dims; missing ones have size 1 and stand in front.
struct FractionalPoolArgs {
  i64 n;
  const void *x, *samples;
  void* y;
  i64* indices;
  i64 dims;
  i64 in[3], out[3], kernel[3];
};

}  // namespace rush
