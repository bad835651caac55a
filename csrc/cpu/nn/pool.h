// pool.h: pools on the CPU, over tensors (batch, channels, one to three spatial dims).
#pragma once

#include <optional>

#include "core/tensor.h"

namespace rush {

// How windows lie. Without a kernel: the outputs share the inputs evenly (adaptive pools).
struct PoolWindows {
  IntList kernel, stride, padding, dilation;  // dilation may be empty: 1
  bool count_include_pad = true;
  std::optional<int64_t> divisor;
};

// float32, float64 or int64; x contiguous or channels-last, the others lie like it.
// Without indices, an undefined tensor, only the values are worked out.
void max_pool_cpu(const Tensor& x, const PoolWindows& windows, const Tensor& y,
                  const Tensor& indices);
void average_pool_cpu(const Tensor& x, const PoolWindows& windows, const Tensor& y);
// gx contiguous or channels-last, g (and indices) lie like it. Indices that point outside raise.
void max_pool_backward_cpu(const Tensor& g, const Tensor& indices, const Tensor& gx);
void average_pool_backward_cpu(const Tensor& g, const PoolWindows& windows, const Tensor& gx);

// Windows at distances that vary; samples (batch, channels, dims) has the type of x. All
// contiguous, float32 or float64.
void fractional_max_pool_cpu(const Tensor& x, IntList kernel, const Tensor& samples,
                             const Tensor& y, const Tensor& indices);

}  // namespace rush
