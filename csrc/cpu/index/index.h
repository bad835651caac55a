// index.h: reading and writing elements at positions that a tensor of indices names.
//
// Every op of the family is one of two loops. Reading (index, gather, index_select, take) is a
// plain loop nest over the result. Writing (index_put, scatter, index_add, ...) may hit one place
// twice, so it goes line by line: the lines are shared among threads, and along a line the
// positions are visited in order. So the last write wins and sums round the same way, for any
// number of threads.
#pragma once

#include "core/tensor.h"

namespace rush {

// How an index turns into an address. Indices run over [lo, size), where lo is -size if negative
// ones count from the end.
struct IndexRange {
  const char* op;
  int64_t size;    // of the indexed dim
  int64_t stride;  // of the indexed dim, in elements
  int64_t dim;     // for the message
  bool wraps = false;

  int64_t lo() const { return wraps ? -size : 0; }
};

// Raises RangeError unless every index (int64) lies in the range.
void check_indices(const Tensor& index, const IndexRange& range);

// out[i] = source[i + index[i] * stride]. Source and index have out's shape (stride 0 where they
// are repeated); a bad index raises.
void read_at_cpu(const Tensor& out, const Tensor& source, const Tensor& index,
                 const IndexRange& range);

// out = source's slices in the order that index says, for contiguous tensors: `outer` times,
// index.numel() runs of `row` bytes each.
void copy_slices_cpu(const Tensor& out, const Tensor& source, const Tensor& index, int64_t outer,
                     int64_t row, const IndexRange& range);

// offsets[i] += index[i] * stride, negative indices counted from `size`. All checked, all int64, of
// one shape.
void add_offsets_cpu(const Tensor& offsets, const Tensor& index, int64_t size, int64_t stride);

enum class ScatterFn : uint8_t { Set, Add, Mul, Max, Min };

// Lines of writes: for each i of the common shape and each j < length,
//   dst[i + index[i + j * index_step] * range.stride] = fn(that, src[i + j * src_step]).
// The indices have been checked. Steps are in elements.
struct ScatterLines {
  Tensor dst, index, src;
  int64_t length, index_step, src_step;
  IndexRange range;
};
void scatter_cpu(ScatterFn fn, const ScatterLines& lines, const Scalar& alpha = 1);

// out /= count (int64, of out's shape), where count is above 1; integers round down.
void divide_by_count_cpu(const Tensor& out, const Tensor& count);

}  // namespace rush
