// resample_args.h: the arguments of resample.cu.
#pragma once

#include "cuda/kernels/args.h"
#include "functors/resample.h"

namespace rush {

// What each place of a result is made of, along one dim: some neighbours, `taps` at most.
struct ResampleSpan {
  i32 first, count;
};
struct ResampleTable {
  ResampleSpan* spans;
  void* weights;  // [rows][taps], of the type that is computed in
  i64 rows, taps;
};
// How many neighbours a row has at most. `backward`: rows are the inputs, their neighbours outputs.
RUSH_FN i64 most_taps(const Resampling& how, bool backward) {
  const i64 size = backward ? how.out : how.in;
  const double reach = how.mode <= ResampleMode::NearestExact ? 0.5 : how.reach();
  const double span = (backward ? 2 * reach / how.ratio : 2 * reach) + 2;
  // Outputs that lie beyond the last input (a scale that does not fit the sizes) are all made of
  // it.
  const bool all = backward && (how.ratio <= 0 || how.place(how.out - 1) > double(how.in));
  return all || span > double(size) ? size : i64(span);
}

struct ResampleTableArgs {
  ResampleTable table;
  Resampling how;
};
// (outer, in, inner) -> (outer, rows of the table, inner), of which `points` belong to an outer
// one; a block takes `side` of these at a time when they are small.
struct ResampleArgs {
  const void* x;
  void* y;
  ResampleTable table;
  i64 outer, in, inner, points;
  i32 side;
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
