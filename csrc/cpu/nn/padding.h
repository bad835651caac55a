// padding.h: borders made of what is inside.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "core/tensor.h"

namespace rush {

enum class PadMode : int64_t { Reflect, Replicate, Circular };

// The place in [0, size) that stands for one outside; it is less than a size away.
inline int64_t place_inside(PadMode mode, int64_t i, int64_t size) {
  if (mode == PadMode::Replicate) return std::clamp<int64_t>(i, 0, size - 1);
  if (mode == PadMode::Circular) return (i % size + size) % size;
  return (size - 1) - std::abs((size - 1) - std::abs(i));
}

// x is contiguous, and so is out; pairs of widths for at most three dims, from the last one on.
void pad_from_inside_cpu(const Tensor& x, IntList pad, PadMode mode, const Tensor& out);

}  // namespace rush
