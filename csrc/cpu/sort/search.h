// search.h: positions in sorted rows, and counts of values, on any device.
#pragma once

#include "core/tensor.h"

namespace rush {

// out[i] (int64 or int32) = how many elements of the row of `sorted` are smaller than values[i] (or
// not larger, if right). All contiguous and of one type. Sorted has one row for all values, or one
// a row of values. `sorter`, when defined, holds the order of each row.
void search_sorted(const char* op, const Tensor& sorted, const Tensor& values, const Tensor& sorter,
                   bool right, const Tensor& out);

// counts[bin] += weight (1 without weights) for each value between the first and last edge, the
// last one included. The edges ascend; `even` says that they are evenly spaced, which finds bins
// without a search. Edges and counts are float64.
void histogram_into(const char* op, const Tensor& x, const Tensor& weights, const Tensor& edges,
                    bool even, const Tensor& counts);

}  // namespace rush
