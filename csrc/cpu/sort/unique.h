// unique.h: runs of equal slices, and the order that brings equal ones together.
#pragma once

#include <vector>

#include "core/tensor.h"

namespace rush {

// x is contiguous, seen as `count` slices of equal length. NaN equals nothing, not even itself.

// Where a slice differs from the one before it (0 first). `order`, when given, is the sequence in
// which slices follow each other.
std::vector<int64_t> run_starts_cpu(const char* op, const Tensor& x, int64_t count,
                                    const int64_t* order = nullptr);

// The order of the slices by their first element, then the second, and so on; equal ones stay in
// sequence.
std::vector<int64_t> slice_order_cpu(const char* op, const Tensor& x, int64_t count);

// The first elements of runs of equal ones in a contiguous vector, in one pass. The run of each
// element and the length of each run are written where asked for.
Tensor first_of_runs_cpu(const char* op, const Tensor& x, const Tensor& inverse, Tensor* counts);

}  // namespace rush
