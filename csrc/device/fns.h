// fns.h: numbers of functions that kernels are indexed by, too; kernels include little else.
#pragma once

#include <cstdint>

namespace rush {

enum class ScanFn : uint8_t { Sum, Prod, Max, Min, LogCumSumExp };

}  // namespace rush
