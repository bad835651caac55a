// ternary.h: pointwise functors of three arguments.
#pragma once

#include "binary.h"

namespace rush::functors {

struct Where {
  template <class T>
  RUSH_FN T operator()(bool c, T a, T b) const {
    return c ? a : b;
  }
};
// min(max(x, lo), hi): the upper bound wins over the lower, nan wins over both.
struct ClampTensor {
  template <class T>
  RUSH_FN T operator()(T x, T lo, T hi) const {
    const T above = x < lo ? lo : x, y = above > hi ? hi : above;
    if constexpr (is_float<T>) {
      const T z = lo != lo ? lo : y;
      return hi != hi ? hi : z;
    }
    return y;
  }
};
template <class T>
struct Clamp {
  T lo, hi;
  RUSH_FN T operator()(T x) const {
    const T y = x < lo ? lo : x;
    return y > hi ? hi : y;
  }
};
template <class T>
struct ClampMin {
  T lo;
  RUSH_FN T operator()(T x) const { return x < lo ? lo : x; }
};
template <class T>
struct ClampMax {
  T hi;
  RUSH_FN T operator()(T x) const { return x > hi ? hi : x; }
};
struct Lerp {
  template <class T>
  RUSH_FN T operator()(T a, T b, T w) const {
    return lerp(a, b, w);
  }
};
template <class T>
struct Addcmul {
  T value;
  RUSH_FN T operator()(T x, T a, T b) const { return wrap_add(x, wrap_mul(wrap_mul(value, a), b)); }
};
template <class T>
struct Addcdiv {
  T value;
  RUSH_FN T operator()(T x, T a, T b) const { return x + value * (a / b); }
};

}  // namespace rush::functors
