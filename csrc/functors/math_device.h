// math_device.h (NVRTC): CUDA's own device functions under the names of the host maths.
#pragma once

#include "math_basic.h"

namespace rush::math {

// One line a function; the macro spares seventy near-copies and ends with this file.
#define RUSH_FORWARD1(name)                            \
  RUSH_FN float name(float x) { return ::name##f(x); } \
  RUSH_FN double name(double x) { return ::name(x); }
#define RUSH_FORWARD2(name)                                        \
  RUSH_FN float name(float x, float y) { return ::name##f(x, y); } \
  RUSH_FN double name(double x, double y) { return ::name(x, y); }

RUSH_FORWARD1(exp)
RUSH_FORWARD1(exp2)
RUSH_FORWARD1(expm1)
RUSH_FORWARD1(log)
RUSH_FORWARD1(log2)
RUSH_FORWARD1(log10)
RUSH_FORWARD1(log1p)
RUSH_FORWARD1(sin)
RUSH_FORWARD1(cos)
RUSH_FORWARD1(tan)
RUSH_FORWARD1(sinh)
RUSH_FORWARD1(cosh)
RUSH_FORWARD1(tanh)
RUSH_FORWARD1(asin)
RUSH_FORWARD1(acos)
RUSH_FORWARD1(atan)
RUSH_FORWARD1(asinh)
RUSH_FORWARD1(acosh)
RUSH_FORWARD1(atanh)
RUSH_FORWARD1(erf)
RUSH_FORWARD1(erfc)
RUSH_FORWARD1(erfinv)
RUSH_FORWARD1(lgamma)
RUSH_FORWARD2(pow)
RUSH_FORWARD2(atan2)
RUSH_FORWARD2(hypot)
RUSH_FORWARD2(fmod)
RUSH_FORWARD2(fmax)

#undef RUSH_FORWARD1
#undef RUSH_FORWARD2

RUSH_FN float i0(float x) { return ::cyl_bessel_i0f(x); }
RUSH_FN double i0(double x) { return ::cyl_bessel_i0(x); }

template <class T>
RUSH_FN T exp_below_one(T x) {
  return exp(x);
}
template <class T>
RUSH_FN T exp_negative(T x) {
  return exp(x);
}

// By the special function unit: two units in the last place at most. 2^x and 1 / x take numbers and
// results below 2^-126 for 0.
#define RUSH_QUICK(name, instruction)               \
  RUSH_FN float name(float x) {                     \
    float r;                                        \
    asm(instruction " %0, %1;" : "=f"(r) : "f"(x)); \
    return r;                                       \
  }
RUSH_QUICK(quick_exp2, "ex2.approx.ftz.f32")
RUSH_QUICK(quick_reciprocal, "rcp.approx.ftz.f32")
RUSH_QUICK(quick_sqrt, "sqrt.approx.f32")
RUSH_QUICK(quick_rsqrt, "rsqrt.approx.f32")
#undef RUSH_QUICK
RUSH_FN float quick_divide(float a, float b) {
  float r;
  asm("div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}

// The standard normal distribution up to x, and its density there.
template <class T>
struct Normal {
  T below, density;
};
template <class T>
RUSH_FN Normal<T> normal(T x) {
  return {T(0.5) * erfc(x * T(-0.70710678118654752440)),
          exp(T(-0.5) * x * x) * T(0.39894228040143267794)};
}

template <class T>
inline constexpr T ln_2 = T(0x1.62e42fefa39efp-1);
template <class T>
inline constexpr T log2_e = T(0x1.71547652b82fep+0);

}  // namespace rush::math
