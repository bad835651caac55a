// mask_args.h: the arguments of mask.cu.
#pragma once

#include "cuda/kernels/args.h"

namespace rush {

inline constexpr int kMaskItems = 16;               // elements per thread
inline constexpr i64 kMaskTile = 256 * kMaskItems;  // elements per block
inline constexpr int kMostDims = 64;

struct MaskArgs {
  const void* x;
  i64 n;
  i64* starts;  // [tiles + 1]: what is not zero before each tile; while counting, in the one before
  i64* positions;
  i64 stride, dim_stride;
  const void* from;  // values, or the source
  void* out;
  i64 room;  // elements of the source
  u64 launch;
  IndexFault* fault;
};

template <class I>
struct MaskShape {
  i32 dims;
  Divider<I> sizes[kMostDims];
};

}  // namespace rush
