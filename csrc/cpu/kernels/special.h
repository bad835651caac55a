// special.h: what special_exact.cpp exports for each instruction set.
#pragma once

#include <cstdint>

#include "functors/special_fns.h"

namespace rush {

// out[i] = f(x[i]), or f(x[i], y[i]), i < n; `first` and `second` are the functor's numbers.
template <class T>
using SpecialLoop = void (*)(SpecialFn fn, const T* x, const T* y, T* out, int64_t n, double first,
                             double second);
struct SpecialKernels {
  SpecialLoop<float> single;
  SpecialLoop<double> wide;
};

namespace baseline {
extern const SpecialKernels special_kernels;
}
namespace avx2 {
extern const SpecialKernels special_kernels;
}
namespace avx512 {
extern const SpecialKernels special_kernels;
}

}  // namespace rush
