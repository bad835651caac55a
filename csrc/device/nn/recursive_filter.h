// recursive_filter.h: filters that feed back what they gave, on a device.
#pragma once

#include "device/table.h"

namespace rush {

struct RecursiveFilterLoops {
  // x and out (batch, channels, time), feedback (channels, order), before (batch, channels, order);
  // all of one floating type, out contiguous.
  void (*forward)(const Tensor& x, const Tensor& feedback, const Tensor& before,
                  const Tensor& out) = nullptr;
};
inline constinit DeviceTable<RecursiveFilterLoops> recursive_filter_loops;

}  // namespace rush
