// Special functions, one element at a time. Compiled for each instruction set because of the fused
// multiply-adds, which are slow calls without the instruction; contraction is off, since many of
// the formulas carry rounding errors along.
#include "functors/special.h"

#include "cpu/kernels/special.h"
#include "functors/binary.h"

namespace rush::RUSH_ISA {
namespace {

template <class T, class F>
void each(const T* x, T* out, int64_t n, F f) {
  for (int64_t i = 0; i < n; ++i) out[i] = f(x[i]);
}
template <class T, class F>
void each(const T* x, const T* y, T* out, int64_t n, F f) {
  for (int64_t i = 0; i < n; ++i) out[i] = f(x[i], y[i]);
}

template <class T>
void special(SpecialFn fn, const T* x, const T* y, T* out, int64_t n, double first, double second) {
  switch (fn) {
    case SpecialFn::Erfcx:
      return each(x, out, n, functors::Erfcx{});
    case SpecialFn::Ndtr:
      return each(x, out, n, functors::Ndtr{});
    case SpecialFn::LogNdtr:
      return each(x, out, n, functors::LogNdtr{});
    case SpecialFn::Ndtri:
      return each(x, out, n, functors::Ndtri{});
    case SpecialFn::Entr:
      return each(x, out, n, functors::Entr{});
    case SpecialFn::I1:
      return each(x, out, n, functors::I1{});
    case SpecialFn::AiryAi:
      return each(x, out, n, functors::AiryAi{});
    case SpecialFn::Bessel:
      return each(x, out, n, functors::Bessel<T>{first, second});
    case SpecialFn::Xlog1py:
      return each(x, y, out, n, functors::Xlog1py{});
    case SpecialFn::Zeta:
      return each(x, y, out, n, functors::Zeta{});
    case SpecialFn::Igamma:
      return each(x, y, out, n, functors::Igamma{});
    case SpecialFn::Igammac:
      return each(x, y, out, n, functors::Igammac{});
    case SpecialFn::Polynomial:
      return each(x, y, out, n, functors::Polynomial<T>{first, second});
  }
}

}  // namespace

extern const SpecialKernels special_kernels = {special<float>, special<double>};

}  // namespace rush::RUSH_ISA
