// math.h: the seam between special functions and devices. The CPU's own loops are called by their
// names.
#pragma once

#include "core/tensor.h"

namespace rush {

enum class SpecialFn : uint8_t;  // cpu/pointwise/special.h

struct MathLoops {
  // As special_cpu (cpu/pointwise/special.h); functions of one argument do not look at y.
  void (*special)(SpecialFn, const Tensor& x, const Tensor& y, const Tensor& out, double first,
                  double second) = nullptr;
};

namespace detail {
extern MathLoops g_cuda_math_loops;
}
inline MathLoops& cuda_math_loops() { return detail::g_cuda_math_loops; }

}  // namespace rush
