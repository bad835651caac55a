// search_args.h: the arguments of search.cu and unique.cu.
#pragma once

#include "cuda/kernels/args.h"

namespace rush {

struct SearchArgs {
  i64 n;  // values
  const void *sorted, *values;
  const i64* sorter;  // where the sorted values stand, or null
  void* out;
  i64 length;  // of a row of boundaries
  i64 row;     // values per row; 0: all look into the same boundaries
  bool right;
};

struct HistogramArgs {
  i64 n;
  const void *x, *weights;
  const double* edges;  // bins + 1 of them
  double* counts;
  i64 bins;
  bool even;
};

struct CountArgs {
  i64 n;
  const i64* x;
  const void* weights;
  void* counts;
  i64 bins;
};

// Slices of `length` elements, end to end; the i-th in order is number order[i], or i.
struct RunArgs {
  i64 count, length;
  const void* slices;
  const i64* order;
  bool* starts;
};

// Sorted runs of `width` slices become runs of twice that.
struct MergeArgs {
  i64 count, length, width;
  const void* slices;
  const i64* from;
  i64* to;
};

}  // namespace rush
