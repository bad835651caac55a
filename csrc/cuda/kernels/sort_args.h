// sort_args.h: the arguments of sort.cu and select.cu.
#pragma once

#include "cuda/kernels/args.h"

namespace rush {

// Rows of `length`, end to end.
struct SortArgs {
  const void* x;
  void* values;  // either may be null
  i64* indices;
  i64 rows, length;
  i64 kept;  // of each sorted row, that many go to the outputs
  bool descending;
  // sort_blocks: rows per block, length / row.
  i32 at_once;
  Divider<u32> by_length;
  // Long rows: pass number `pass` of `passes`, each for eight bits of the key.
  i32 pass, passes;
  i64 tiles;                    // a row
  const void *keys_in, *at_in;  // sorted by the lower bits; positions in the row
  void *keys_out, *at_out;
  void* counts;  // [rows][passes][256]: elements with each digit, then where they start
  void* status;  // [rows][tiles][256] of this pass: see sort_pass
};

struct PickArgs {
  const void* x;       // rows as they are
  const void* sorted;  // and sorted, with where each stood
  const i64* order;
  void* values;
  i64* indices;
  i64 rows, length, k;
  i32 rank;  // 0: the k-th, 1: the lower median, or a NaN, 2: the median of what is no NaN
};

// The longest run of equal keys in each sorted row; long rows in segments.
struct ModeArgs {
  const void* sorted;
  const i64* order;
  void* values;
  i64* indices;
  i64 rows, length, segments;
  i64* partial;  // [rows][segments]: count, then position of the run's end
};

}  // namespace rush
