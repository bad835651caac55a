// resample_args.h: the arguments of resample.cu.
#pragma once

#include "cuda/kernels/args.h"
#include "functors/resample.h"

namespace rush {

// The dim lies between `outer` and `inner` dims; n: elements of the result.
struct ResampleArgs {
  i64 n;
  const void* x;
  void* y;
  i64 inner;
  Resampling how;
};

// (outer, three dims, inner): inner is 1, or the channels where they are last; n: elements of one
// outer of the result.
struct ResampleImageArgs {
  i64 n, outer, inner;
  const void* x;
  void* y;
  Resampling how[3];
};

struct PatchArgs {
  i64 n;
  const void* x;
  void* y;
  i64 in[2], out[2], kernel[2], dilation[2], padding[2], stride[2];
};

}  // namespace rush
