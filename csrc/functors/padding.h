// padding.h: which element inside a dim stands for one outside it.
#pragma once

#include "types.h"

namespace rush {

enum class PadMode : i64 { Reflect, Replicate, Circular };

// The place in [0, size) that stands for i, which is less than a size outside.
RUSH_FN i64 place_inside(PadMode mode, i64 i, i64 size) {
  const auto magnitude = [](i64 n) { return n < 0 ? -n : n; };
  const i64 last = size - 1;
  if (mode == PadMode::Replicate) return i < 0 ? 0 : i > last ? last : i;
  if (mode == PadMode::Circular) return (i % size + size) % size;
  return last - magnitude(last - magnitude(i));
}

}  // namespace rush
