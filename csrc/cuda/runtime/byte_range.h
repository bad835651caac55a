// byte_range.h: which bytes of a GPU's memory a launch touches, for rules that join launches.
#pragma once

#include <cstdint>

namespace rush::cuda {

struct ByteRange {
  const char *begin = nullptr, *end = nullptr;

  ByteRange() = default;
  // From p to the element `last` places behind it; nothing for null.
  ByteRange(const void* p, int64_t last, int64_t item)
      : begin(static_cast<const char*>(p)), end(p ? begin + (last + 1) * item : begin) {}
  bool meets(const ByteRange& other) const { return begin < other.end && other.begin < end; }
};

}  // namespace rush::cuda
