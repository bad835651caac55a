// pool.h: pools on a device, over tensors (batch, channels, one to three spatial dims).
#pragma once

#include <optional>

#include "device/table.h"

namespace rush {

// How windows lie. Without a kernel: the outputs share the inputs evenly (adaptive pools).
struct PoolWindows {
  IntList kernel, stride, padding, dilation;  // dilation may be empty: 1
  bool count_include_pad = true;
  std::optional<int64_t> divisor;
};

// float32, float64 or int64; x (or gx) contiguous or channels-last, the others lie like it.
struct PoolLoops {
  void (*max)(const Tensor& x, const PoolWindows& windows, const Tensor& y,
              const Tensor& indices) = nullptr;
  // Without indices. Null: the device has no way that is cheaper than `max`.
  void (*max_values)(const Tensor& x, const PoolWindows& windows, const Tensor& y) = nullptr;
  // Indices that point outside raise, perhaps later. Without a kernel the windows may be any.
  void (*max_backward)(const Tensor& g, const Tensor& indices, const PoolWindows& windows,
                       const Tensor& gx) = nullptr;
  void (*average)(const Tensor& x, const PoolWindows& windows, const Tensor& y) = nullptr;
  void (*average_backward)(const Tensor& g, const PoolWindows& windows, const Tensor& gx) = nullptr;
  // Windows at distances that vary; samples (batch, channels, dims) has the type of x, a floating
  // one. All may lie in any way.
  void (*fractional_max)(const Tensor& x, IntList kernel, const Tensor& samples, const Tensor& y,
                         const Tensor& indices) = nullptr;
  bool max_values_of_bytes = false;  // does max_values take uint8 and int8, too?
};
inline constinit DeviceTable<PoolLoops> pool_loops;

}  // namespace rush
