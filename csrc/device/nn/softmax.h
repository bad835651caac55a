// softmax.h: softmax along one dim, on a device.
#pragma once

#include "device/table.h"

namespace rush {

struct SoftmaxLoops {
  // Along dim, or its logarithm; false: not done, take another way.
  bool (*softmax)(const Tensor& x, int64_t dim, bool log, const Tensor& out) = nullptr;
  // Has the device a backward pass for the result y along dim?
  bool (*has_backward)(const Tensor& y, int64_t dim) = nullptr;
  // y: the forward pass's result along dim. gx is dense, the others may lie in any way.
  void (*backward)(const Tensor& g, const Tensor& y, int64_t dim, bool log,
                   const Tensor& gx) = nullptr;
};
inline constinit DeviceTable<SoftmaxLoops> softmax_loops;

}  // namespace rush
