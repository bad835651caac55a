// fns.h: numbers of functions that kernels are indexed by, too; kernels include little else.
#pragma once

#include <cstdint>

namespace rush {

enum class ScanFn : uint8_t { Sum, Prod, Max, Min, LogSumExp };

// Functions that are too long to be vectorised; the formulas are those of functors/special.h.
enum class SpecialFn : uint8_t {
  Erfcx,
  Ndtr,
  LogNdtr,
  Ndtri,
  Entr,
  I1,
  AiryAi,
  Bessel,  // of one argument
  Xlog1py,
  Zeta,
  Igamma,
  Igammac,
  Polynomial  // of two
};

}  // namespace rush
