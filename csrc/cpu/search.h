// search.h: positions in sorted rows, and counts of values.
#pragma once

#include <vector>

#include "core/tensor.h"

namespace rush {

// out[i] (int64 or int32) = how many elements of the row of `sorted` are smaller than values[i] (or
// not larger, if right). All contiguous and of one type. Sorted has one row for all values, or one
// a row of values. `sorter`, when defined, holds the order of each row.
void search_sorted_cpu(const char* op, const Tensor& sorted, const Tensor& values,
                       const Tensor& sorter, bool right, const Tensor& out);

// out[bin] += weight (1 without weights) for each value between the first and last edge, the last
// one included. The edges (double) ascend; `even` says that they are evenly spaced, which finds
// bins without a search.
void histogram_cpu(const char* op, const Tensor& x, const Tensor& weights,
                   const std::vector<double>& edges, bool even, std::vector<double>& out);

}  // namespace rush
