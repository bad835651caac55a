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
