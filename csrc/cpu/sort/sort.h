// sort.h: ordering and selecting along the last dim, on any device. All inputs and outputs are
// contiguous; rows are the last dim.
#pragma once

#include "core/tensor.h"

namespace rush {

// Stable. Either output may be undefined. NaN counts as the largest.
void sort_rows(const char* op, const Tensor& x, bool descending, const Tensor& values,
               const Tensor& indices);
// The elements of a contiguous vector of integers in rising order, without positions; false where
// that is no faster than sort_rows.
bool sort_integers(const Tensor& x, const Tensor& values);

// The k largest (or smallest) of each row in order; of equals, those that come first.
void topk_rows(const char* op, const Tensor& x, int64_t k, bool largest, const Tensor& values,
               const Tensor& indices);

// Which element of the sorted row: the k-th, or the lower median, with or without NaNs (then a NaN
// is the median).
enum class Rank : uint8_t { Kth, Median, NanMedian };
void select_rows(const char* op, const Tensor& x, Rank rank, int64_t k, const Tensor& values,
                 const Tensor& indices);

// The most frequent value of each row, the smallest of several, and where it last stands.
void mode_rows(const char* op, const Tensor& x, const Tensor& values, const Tensor& indices);

}  // namespace rush
