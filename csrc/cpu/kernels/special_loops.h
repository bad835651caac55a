// special_loops.h: special functions, one element at a time; the generated special_exact.cpp picks
// the functor. Compiled for each instruction set because of the fused multiply-adds, which are slow
// calls without the instruction; contraction is off, since many of the formulas carry rounding
// errors along.
#pragma once

#include "cpu/kernels/special.h"
#include "functors/binary.h"
#include "functors/special.h"

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

}  // namespace
}  // namespace rush::RUSH_ISA
