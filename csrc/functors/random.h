// random.h: from random words to the draws of each distribution; one formula for CPU and CUDA.
//
// A draw sees four words: float32 distributions give four numbers from them, float64 ones two. See
// Note [Same normals everywhere] in math.h.
#pragma once

#include "math.h"
#include "philox.h"

namespace rush::functors {

// (0, 1]: logarithms must not see zero.
RUSH_FN float positive_uniform(u32 bits) {
  return float(int(bits >> 8) + 1) * (1.0f / 16777216.0f);
}
RUSH_FN double positive_uniform(u64 bits) {
  return double((long long)(bits >> 11) + 1) * (1.0 / 9007199254740992.0);
}

// Two independent standard normals (Box and Muller).
RUSH_FN void normal_pair(u32 w0, u32 w1, float& first, float& second) {
  const float r = math::sqrt(-2.0f * math::philox_log(positive_uniform(w0)));
  const math::SinCos angle = math::philox_sincos(uniform_float(w1));
  first = r * angle.cos;
  second = r * angle.sin;
}
RUSH_FN void normal_pair(u64 w0, u64 w1, double& first, double& second) {
  const double r = math::sqrt(-2.0 * math::log(positive_uniform(w0)));
  const double angle = 6.283185307179586 * uniform_double(w1);
  first = r * math::cos(angle);
  second = r * math::sin(angle);
}

RUSH_FN float draw_log(float u) { return math::philox_log(u); }
RUSH_FN double draw_log(double u) { return math::log(u); }

RUSH_FN float unit_uniform(u32 bits) { return uniform_float(bits); }
RUSH_FN double unit_uniform(u64 bits) { return uniform_double(bits); }

struct RandomUniform {
  template <class T, class W>
  RUSH_FN T operator()(W bits, T a, T b) const {
    return unit_uniform(bits) * (b - a) + a;
  }
};
struct RandomExponential {
  template <class T, class W>
  RUSH_FN T operator()(W bits, T rate, T) const {
    return -draw_log(positive_uniform(bits)) / rate;
  }
};
struct RandomCauchy {
  template <class T, class W>
  RUSH_FN T operator()(W bits, T median, T width) const {
    return median + width * math::tan(T(3.141592653589793) * (unit_uniform(bits) - T(0.5)));
  }
};
struct RandomGeometric {
  template <class T, class W>
  // `failing` is log(1 - p), the same for all draws of a call.
  RUSH_FN T operator()(W bits, T, T failing) const {
    const T trials = math::ceil(draw_log(positive_uniform(bits)) / failing);
    return trials < T(1) ? T(1) : trials;
  }
};
struct RandomBernoulli {
  template <class T, class W>
  RUSH_FN T operator()(W bits, T p, T) const {
    return unit_uniform(bits) < p ? T(1) : T(0);
  }
};

}  // namespace rush::functors
