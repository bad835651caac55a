// binary.h: pointwise functors of two arguments. PyTorch's semantics to the letter.
//
// Integer ops that divide say so with checks_zero<T>: the loop tests for a zero divisor and raises
// before it calls them.
#pragma once

#include "unary.h"

namespace rush::functors {

template <class T>
RUSH_FN T wrap_add(T a, T b) {
  if constexpr (is_bool<T>)
    return a || b;
  else if constexpr (is_int<T>)
    return static_cast<T>(wrapping<T>(a) + wrapping<T>(b));
  else
    return a + b;
}
template <class T>
RUSH_FN T wrap_sub(T a, T b) {
  if constexpr (is_int<T>)
    return static_cast<T>(wrapping<T>(a) - wrapping<T>(b));
  else
    return a - b;
}
template <class T>
RUSH_FN T wrap_mul(T a, T b) {
  if constexpr (is_bool<T>)
    return a && b;
  else if constexpr (is_int<T>)
    return static_cast<T>(wrapping<T>(a) * wrapping<T>(b));
  else
    return a * b;
}

struct Add {
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    return wrap_add(a, b);
  }
};
struct Sub {
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    return wrap_sub(a, b);
  }
};
struct Mul {
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    return wrap_mul(a, b);
  }
};
template <class T>
struct AddAlpha {
  T alpha;
  RUSH_FN T operator()(T a, T b) const { return wrap_add(a, wrap_mul(alpha, b)); }
};
template <class T>
struct SubAlpha {
  T alpha;
  RUSH_FN T operator()(T a, T b) const { return wrap_sub(a, wrap_mul(alpha, b)); }
};
struct Div {  // true division: integers were turned into floats before
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    return a / b;
  }
  RUSH_FN float coarse(float a, float b) const { return math::quick_divide(a, b); }
};

// ---- division with rounding ----

struct IntegerDivision {
  template <class T>
  static constexpr bool checks_zero = is_integral_v<T>;
};

// Integer a / b that wraps at lowest / -1 instead of trapping.
template <class T>
RUSH_FN T quotient(T a, T b) {
  if constexpr (is_signed_int<T>)
    return b == T(-1) ? wrap_neg(a) : static_cast<T>(a / b);
  else
    return static_cast<T>(a / b);
}
template <class T>
RUSH_FN T rest(T a, T b) {
  if constexpr (is_signed_int<T>)
    return b == T(-1) ? T(0) : static_cast<T>(a % b);
  else
    return static_cast<T>(a % b);
}

struct TruncDivide : IntegerDivision {
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    if constexpr (is_integral_v<T>)
      return quotient(a, b);
    else
      return math::trunc(a / b);
  }
};
struct FloorDivide : IntegerDivision {
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    if constexpr (is_signed_int<T>) {
      const T q = quotient(a, b);
      const bool inexact = rest(a, b) != T(0);
      return static_cast<T>(q - T(inexact && (a < T(0)) != (b < T(0))));
    } else if constexpr (is_integral_v<T>) {
      return quotient(a, b);
    } else {
      // As Python: from the remainder, so that a == b * (a // b) + a % b holds.
      const T mod = math::fmod(a, b);
      const T d0 = (a - mod) / b;
      const T d = mod != T(0) && (b < T(0)) != (mod < T(0)) ? d0 - T(1) : d0;
      const T f0 = math::floor(d);
      const T f = d - f0 > T(0.5) ? f0 + T(1) : f0;
      const T signed_zero = math::copysign(T(0), a / b);
      return b == T(0) ? a / b : (d != T(0) ? f : signed_zero);
    }
  }
};
struct Remainder : IntegerDivision {  // the divisor's sign
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    if constexpr (is_signed_int<T>) {
      const T r = rest(a, b);
      return static_cast<T>(r != T(0) && (r < T(0)) != (b < T(0)) ? r + b : r);
    } else if constexpr (is_integral_v<T>) {
      return rest(a, b);
    } else {
      return math::remainder(a, b);
    }
  }
};
struct Fmod : IntegerDivision {  // the dividend's sign
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    if constexpr (is_integral_v<T>)
      return rest(a, b);
    else
      return math::fmod(a, b);
  }
};

// ---- powers ----

// Integer powers by squaring. A negative exponent leaves 1/base, which is an integer for 1 and -1
// only and 0 otherwise.
template <class T>
RUSH_FN T power_int(T base, T exponent) {
  using W = wrapping<T>;
  if constexpr (is_signed_int<T>) {
    if (exponent < T(0)) {
      if (base == T(1)) return T(1);
      if (base == T(-1)) return (exponent & 1) ? T(-1) : T(1);
      return T(0);
    }
  }
  W result = 1, b = static_cast<W>(base);
  for (u64 e = static_cast<u64>(exponent); e != 0; e >>= 1) {
    result = (e & 1) ? result * b : result;
    b *= b;
  }
  return static_cast<T>(result);
}
struct Pow {
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    if constexpr (is_bool<T>)
      return a || !b;
    else if constexpr (is_int<T>)
      return power_int(a, b);
    else
      return math::pow(a, b);
  }
};
struct FloatPower {  // its arguments are double or complex<double>
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    return math::pow(a, b);
  }
};

// ---- extrema ----

struct Maximum {  // nan wins
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    if constexpr (is_float<T>)
      return (a > b) | math::isnan(a) ? a : b;
    else
      return a > b ? a : b;
  }
};
struct Minimum {
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    if constexpr (is_float<T>)
      return (a < b) | math::isnan(a) ? a : b;
    else
      return a < b ? a : b;
  }
};
struct Fmax {  // nan loses
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    if constexpr (is_float<T>)
      return math::fmax(a, b);
    else
      return a > b ? a : b;
  }
};
struct Fmin {
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    if constexpr (is_float<T>)
      return (a < b) | math::isnan(b) ? a : b;
    else
      return a < b ? a : b;
  }
};

// ---- float functions of two arguments ----

struct Atan2 {
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    return math::atan2(a, b);
  }
  RUSH_FN float coarse(float a, float b) const { return coarse::atan2(a, b); }
};
struct Hypot {
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    return math::hypot(a, b);
  }
};
struct Nextafter {
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    return math::nextafter(a, b);
  }
};
// The neighbours of float16 and bfloat16 numbers, which pass as floats.
template <class H>
RUSH_FN H next_of(H x, bool up) {
  const bool zero = (x.bits & 0x7fff) == 0, grows = up != ((x.bits & 0x8000) != 0);
  const int tiny = up ? 1 : 0x8001;
  return H::from_bits(static_cast<u16>(zero ? tiny : x.bits + (grows ? 1 : -1)));
}
template <class H>
RUSH_FN float narrow_nextafter(float a, float b) {
  if (math::isnan(a) || math::isnan(b)) return a + b;
  return a == b ? b : static_cast<float>(next_of(H(a), a < b));
}
struct NextafterHalf {
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    return narrow_nextafter<half>(static_cast<float>(a), static_cast<float>(b));
  }
};
struct NextafterBfloat16 {
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    return narrow_nextafter<bfloat16>(static_cast<float>(a), static_cast<float>(b));
  }
};
struct Copysign {
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    return math::copysign(a, b);
  }
};
struct Logaddexp {
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    return math::logaddexp(a, b);
  }
};
struct Logaddexp2 {
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    return math::logaddexp2(a, b);
  }
};
struct Xlogy {
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    return math::xlogy(a, b);
  }
};
struct Xlog1py {
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    return math::xlog1py(a, b);
  }
};
struct Ldexp {  // x 2^n, n a float holding an integer
  template <class T>
  RUSH_FN T operator()(T x, T n) const {
    return math::ldexp(x, n);
  }
};
struct Heaviside {  // 0 below, 1 above, the second argument at zero
  template <class T>
  RUSH_FN T operator()(T x, T at_zero) const {
    const T step = x < T(0) ? T(0) : T(1);
    if constexpr (is_float<T>)
      return math::isnan(x) ? x : (x == T(0) ? at_zero : step);
    else
      return x == T(0) ? at_zero : step;
  }
};

// ---- bits ----

struct BitwiseAnd {
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct BitwiseOr {
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct BitwiseXor {
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};
// A shift by the width or more, or by a negative count, moves every bit out.
struct BitwiseLeftShift {
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    using W = wrapping<T>;
    constexpr T width = static_cast<T>(8 * sizeof(T));
    const bool out = b < T(0) || b >= width;
    const W shifted = static_cast<W>(a) << (out ? W(0) : static_cast<W>(b));
    return out ? T(0) : static_cast<T>(shifted);
  }
};
struct BitwiseRightShift {
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    constexpr T last = static_cast<T>(8 * sizeof(T) - 1);
    const bool out = b < T(0) || b > last;
    if constexpr (is_signed_int<T>)
      return static_cast<T>(a >> (out ? last : b));
    else
      return out ? T(0) : static_cast<T>(a >> (out ? T(0) : b));
  }
};

// ---- number theory ----

struct Gcd {
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    using U = unsigned_of<T>;  // |lowest| has no signed form
    U x = static_cast<U>(Abs{}(a)), y = static_cast<U>(Abs{}(b));
    while (y != 0) {
      const U r = static_cast<U>(x % y);
      x = y;
      y = r;
    }
    return static_cast<T>(x);
  }
};
struct Lcm {
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    const T g = Gcd{}(a, b);
    return g == T(0) ? T(0) : Abs{}(wrap_mul(quotient(a, g), b));
  }
};

// ---- interpolation with a scalar weight ----

// From the nearer end, so that weight 1 gives exactly the end.
template <class T, class W>
RUSH_FN T lerp(T a, T b, W w) {
  real_of<W> size;
  if constexpr (is_complex_v<W>)
    size = math::abs(w);
  else
    size = math::fabs(w);
  return size < real_of<W>(0.5) ? a + w * (b - a) : b - (b - a) * (W(1) - w);
}
template <class T>
struct LerpScalar {
  T weight;
  RUSH_FN T operator()(T a, T b) const { return lerp(a, b, weight); }
};

}  // namespace rush::functors
