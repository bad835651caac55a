// scan_args.h: the arguments of scan.cu.
#pragma once

#include "cuda/kernels/args.h"

namespace rush {

inline constexpr int kScanGroup = 32;  // tiles per group, groups per stretch: a lane each

struct ScanArgs {
  const void* x;
  void* out;
  i64* indices;  // of running extremes, or null
  i64 lines, length;
  i64 x_step, out_step, index_step;  // along a line, in elements
  // scan_tiles: tiles per line; what blocks leave for each other (kernels/scan.cu).
  i64 tiles, groups, stretches;
  void *tile_sums, *group_sums, *stretch_starts;
  u32 *tile_flags, *group_flags, *stretch_flags;
  // scan_columns: elements a segment, and the totals of segments, [segments][lines].
  i64 segment;
  void* totals;
};

}  // namespace rush
