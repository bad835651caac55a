// math_coarse.h: maths for results that are rounded to half or bfloat16 as they are written.
//
// Half types move half the bytes, so on a GPU the maths of an activation would take longer than the
// memory. Where only 11 bits of a result are kept, formulas of 17 bits and the special function units
// serve: by the formulas 0.4% of gelu's float16 results, and fewer of the others', have another last
// bit, and what is below 1e-36 may be 0. A functor that has such a form says so by a member `coarse`, see Running in
// cuda/kernels/functions.h.
#pragma once

#include "math.h"

namespace rush::coarse {

RUSH_FN float exp(float x) { return math::quick_exp2(x * math::log2_e<float>); }
// 1 / x for 1 <= x.
RUSH_FN float inverse(float x) { return math::quick_reciprocal(x); }
RUSH_FN float sigmoid(float x) { return inverse(1.0f + exp(-x)); }

// Relative error 4.6e-7 near zero, where 1 would cancel.
RUSH_FN float expm1(float x) {
  const float near =
      x * math::poly(x, 0.99999994f, 0.49999352f, 0.16666946f, 0.04187925f, 0.00833332f);
  return math::fabs(x) < 0.35f ? near : exp(x) - 1.0f;
}

// The angle of the shorter leg by the longer one, relative error 4.4e-6, and then by octants.
RUSH_FN float atan2(float y, float x) {
  const float a = math::fabs(x), b = math::fabs(y), high = b > a ? b : a, low = b > a ? a : b;
  float r = math::quick_divide(low, high);
  if (low == high) r = high == 0.0f ? 0.0f : 1.0f;  // infinities as well
  const float q = r * r;
  float angle = r * math::poly(q, 0.99999563f, -0.33299458f, 0.1956358f, -0.12123872f, 0.05747691f,
                               -0.01348031f);
  if (b > a) angle = 1.5707964f - angle;
  constexpr u32 kSign = 0x80000000u;
  if (bit_cast<u32>(x) & kSign) angle = 3.1415927f - angle;
  return bit_cast<float>(bit_cast<u32>(angle) | (bit_cast<u32>(y) & kSign));
}

// log(1 + e^-|x|), relative error 1.3e-6.
RUSH_FN float softplus_tail(float x) {
  const float e = exp(-math::fabs(x));
  return e * math::poly(e, 0.99999875f, -0.49986947f, 0.33109304f, -0.23503426f, 0.14921772f,
                        -0.066397816f, 0.01414009f);
}

// Of the normal distribution: what lies below x, and e^(-x^2 / 2). Beyond |x| the share is that times
// a polynomial of 1 / (1 + 0.44 |x| / sqrt(2)), relative error 5.2e-6.
struct Normal {
  float below, bell;
};
RUSH_FN Normal normal(float x) {
  const float bell = math::quick_exp2(x * x * (-0.5f * math::log2_e<float>));
  const float k = inverse(math::fma(math::fabs(x), 0.31112698f, 1.0f));
  const float beyond = bell * k *
                       math::poly(k, 0.12428061f, 0.12128363f, 0.13179807f, 0.020355746f,
                                  0.17533547f, -0.073056117f);
  return {x < 0.0f ? beyond : 1.0f - beyond, bell};
}

// tanh(log(1 + e^x)), see functors::tanh_softplus, and what it is below 1, which must not vanish
// beside a large x.
struct TanhSoftplus {
  float value, below_one;
};
RUSH_FN TanhSoftplus tanh_softplus(float x) {
  const float e = exp(x > 20.0f ? 20.0f : x), n = e * (e + 2.0f), i = inverse(n + 2.0f);
  return {n * i, 2.0f * i};
}

}  // namespace rush::coarse
