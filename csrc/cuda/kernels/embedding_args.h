// embedding_args.h: the arguments of embedding.cu. Rows lie end to end; a block's threads are
// 2^across_log columns (or packs of them) by the rest.
#pragma once

#include "cuda/kernels/args.h"

namespace rush {

// out[i] = table[index[i]], rows of `width` packs.
struct EmbeddingArgs {
  const void *table, *index;
  void* out;
  i64 n, width, rows;
  i32 across_log;
  u64 launch;
  IndexFault* fault;
  i64 step;  // from one row of `out` to the next
};

// Bag b holds the indices from bounds[b] to bounds[b + 1]; those equal to `skip` do not count.
struct BagArgs {
  const void *table, *index;
  const i64* bounds;
  const void* weight;  // of each index, or null
  void* out;
  i64 *counts, *places;
  i64 n, bags, width, rows, skip;
  i32 mode;  // 0 sum, 1 mean, 2 max
  i32 across_log;
  u64 launch;
  IndexFault* fault;
  // Backward, for each index: its row of the table (`rows` where it does not count), its bag, and
  // what the bag's gradient is multiplied by.
  const void* g;
  void *keys, *scale, *gweight;
  i64* bag_of;
};

// Sums of the rows whose (sorted) keys are equal, chunk by chunk. What reaches over the border of a
// chunk goes to `partial`: rows 2 c (with what came before chunk c) and 2 c + 1 (with what comes
// after), which the next launch sums up in the same way.
struct SegmentArgs {
  const void* keys;
  const i64* order;   // where the rows stood, or null
  const i64* row_of;  // which row of the source that means, or null
  const void* scale;  // by where they stood, or null
  const i64* counts;  // of each key how many there are, 0: nothing to read; or null: one each
  const void* rows;
  i64 step;  // from row to row of the source
  i64 n, width, chunk;
  i64 limit;  // keys from here on do not count
  void* out;
  void *partial, *partial_keys;
  i64* partial_counts;
  bool by_count;  // divide by how often a key occurs
  i32 across_log;
};

}  // namespace rush
