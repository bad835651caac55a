// parameter_layout.h: where a kernel's parameters lie, as the driver tells.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "cuda/runtime/driver.h"

namespace rush::cuda {

inline constexpr size_t kMostParameters = 16;
using ParameterPointers = std::array<void*, kMostParameters>;

struct ParameterLayout {
  size_t count = 0;
  size_t bytes =
      0;  // of all, rounded up to 16; 0: there are none, too many, or the driver tells nothing
  std::array<uint16_t, kMostParameters> offsets{}, sizes{};
};

class ParameterLayouts {
 public:
  const ParameterLayout& of(CUfunction f);

 private:
  std::unordered_map<CUfunction, ParameterLayout> known_;
};

}  // namespace rush::cuda
