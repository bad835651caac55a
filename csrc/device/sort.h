// sort.h: ordering, selecting, searching and finding distinct elements, by device. All tensors are
// contiguous; rows are the last dim. `op` names the op in messages.
#pragma once

#include "device/table.h"

namespace rush {

// Which element of the sorted row: the k-th, or the lower median, with or without NaNs (then a NaN
// is the median).
enum class Rank : uint8_t { Kth, Median, NanMedian };

struct SortLoops {
  // Stable. Either output may be undefined. NaN counts as the largest.
  void (*sort)(const char* op, const Tensor& x, bool descending, const Tensor& values,
               const Tensor& indices) = nullptr;
  // The elements of a vector of integers in rising order, without positions; false where that is no
  // faster than sort. Null: it never is.
  bool (*sort_integers)(const Tensor& x, const Tensor& values) = nullptr;
  // The k largest (or smallest) of each row in order; of equals, those that come first.
  void (*topk)(const char* op, const Tensor& x, int64_t k, bool largest, const Tensor& values,
               const Tensor& indices) = nullptr;
  // Either output may be undefined.
  void (*select)(const char* op, const Tensor& x, Rank rank, int64_t k, const Tensor& values,
                 const Tensor& indices) = nullptr;
  // The most frequent value of each row, the smallest of several, and where it last stands.
  void (*mode)(const char* op, const Tensor& x, const Tensor& values,
               const Tensor& indices) = nullptr;

  // out[i] (int64 or int32) = how many elements of the row of `sorted` are smaller than values[i]
  // (or not larger, if right). All of one type. Sorted has one row for all values, or one per row
  // of values. `sorter`, when defined, holds the order of each row.
  void (*search_sorted)(const char* op, const Tensor& sorted, const Tensor& values,
                        const Tensor& sorter, bool right, const Tensor& out) = nullptr;
  // out[i] (bool) = is x[i] what stands in `sorted` at places[i]? A place may be past the end.
  // Null: ops say the same.
  void (*stands_at)(const char* op, const Tensor& x, const Tensor& sorted, const Tensor& places,
                    bool invert, const Tensor& out) = nullptr;
  // counts[bin] += weight (1 without weights) for each value between the first and last edge, the
  // last one included. The edges ascend; `even` says that they are evenly spaced, which finds bins
  // without a search. Edges and counts are float64.
  void (*histogram)(const char* op, const Tensor& x, const Tensor& weights, const Tensor& edges,
                    bool even, const Tensor& counts) = nullptr;
  // counts[x[i]] += weights[i], or 1; x: int64, checked; weights and counts: of one type.
  void (*bincount)(const Tensor& x, const Tensor& weights, const Tensor& counts) = nullptr;

  // From here on x is seen as `count` slices of equal length. NaN equals nothing, not even itself.
  // The order of the slices by their first element, then the second, and so on; equal ones stay in
  // sequence. `order` holds 0, 1, 2, ... when it comes.
  void (*sort_slices)(const char* op, const Tensor& x, int64_t count,
                      const Tensor& order) = nullptr;
  // Where a slice differs from the one before it (0 first). `order`, when defined, is the sequence
  // in which slices follow each other. `inverse`, when defined, gets the number of each slice's
  // run: the i-th one's at `places[i]`, or at i.
  Tensor (*run_starts)(const char* op, const Tensor& x, int64_t count, const Tensor& order,
                       const Tensor& inverse, const Tensor& places) = nullptr;
  // The first elements of runs of equal ones in a vector, in one pass. The run of each element and
  // the length of each run are written where asked for. Null: run_starts leads there, too.
  Tensor (*first_of_runs)(const char* op, const Tensor& x, const Tensor& inverse,
                          Tensor* counts) = nullptr;
};
extern DeviceTable<SortLoops> sort_loops;

}  // namespace rush
