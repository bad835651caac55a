// dropout.h: dropout on a device.
#pragma once

#include "core/generator.h"
#include "device/table.h"

namespace rush {

// y = x * scale + shift where an element is kept, floor elsewhere.
struct DropoutRule {
  double keep;  // the probability
  double scale, shift, floor;
};

struct DropoutLoops {
  // Draws the choices and applies them in one pass; contiguous tensors of one shape, the choices
  // go into `mask`. Null: the device draws first.
  void (*draw)(const Tensor& x, RandomCall, const DropoutRule& rule, const Tensor& y,
               const Tensor& mask) = nullptr;
  // Choices that are known; mask broadcasts, and all may lie in any way.
  void (*masked)(const Tensor& x, const Tensor& mask, const DropoutRule& rule,
                 const Tensor& y) = nullptr;
};
inline constinit DeviceTable<DropoutLoops> dropout_loops;

}  // namespace rush
