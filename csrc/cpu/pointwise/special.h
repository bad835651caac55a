// special.h: loops over special functions that are too long to be vectorised; the formulas are
// those of functors/special.h.
#pragma once

#include "core/tensor.h"

namespace rush {

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

// All tensors are contiguous, of one shape, float32 or float64 alike, on the CPU. The numbers are
// those of the functor.
void special_cpu(SpecialFn fn, const Tensor& x, const Tensor& out, double first = 0,
                 double second = 0);
void special_cpu(SpecialFn fn, const Tensor& x, const Tensor& y, const Tensor& out,
                 double first = 0, double second = 0);

}  // namespace rush
