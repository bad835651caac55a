// select_args.h: the arguments of select_long.cu and select_rows.cu.
#pragma once

#include "cuda/kernels/args.h"

namespace rush {

inline constexpr int kMostKept = 2048;  // that select_rows sorts
inline constexpr int kSelectItems = 16;
inline constexpr i64 kSelectTile = 256 * kSelectItems;

// Rows of `length`, end to end. In long rows the wanted element is found by its key, eight bits at
// a time from the top; `key` and `left` (how many of those that match so far come before it) say
// how far that has come.
struct SelectArgs {
  const void* x;
  i64 rows, length;
  bool descending;
  i32 pass, passes;
  i32 rank;     // as in PickArgs
  i64 k, kept;  // kept: how many are gathered
  u64* counts;  // [rows][256]: of the next eight bits among those that match
  u64* nans;    // [rows]
  u64* key;     // [rows]
  i64* left;    // [rows]
  // Then: in each tile, how many keys are smaller, and how many are the same: [rows][2][tiles],
  // and summed up along the tiles.
  i64 tiles;
  i64* tallies;
  void* values;
  i64* indices;
};

}  // namespace rush
