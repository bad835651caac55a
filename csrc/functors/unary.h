// unary.h: pointwise functors of one argument (activations stand in activation.h).
//
// A functor sees opmath types only: the loops turn half and bfloat16 into float and back.
#pragma once

#include "compare.h"
#include "complex_limits.h"
#include "math_coarse.h"

namespace rush::functors {

using rush::complex;

// -x, |x|, x + y ... on integers wrap around, as two's complement does.
template <class T>
RUSH_FN T wrap_neg(T x) {
  return static_cast<T>(wrapping<T>(0) - wrapping<T>(x));
}

struct Positive {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return x;
  }
};
struct Neg {
  template <class T>
  RUSH_FN T operator()(T x) const {
    if constexpr (is_integral_v<T>)
      return wrap_neg(x);
    else
      return -x;
  }
};
struct Abs {
  template <class T>
  RUSH_FN T operator()(T x) const {
    if constexpr (is_float<T>)
      return math::fabs(x);
    else if constexpr (is_signed_int<T>)
      return x < T(0) ? wrap_neg(x) : x;
    else
      return x;
  }
};
struct AbsComplex {
  template <class T>
  RUSH_FN T operator()(complex<T> z) const {
    return math::abs(z);
  }
};
struct Sign {
  template <class T>
  RUSH_FN T operator()(T x) const {
    if constexpr (is_bool<T>)
      return x;
    else
      return static_cast<T>(int(x > T(0)) - int(x < T(0)));  // 0 for nan
  }
};
struct Sgn {
  template <class T>
  RUSH_FN T operator()(T x) const {
    if constexpr (is_complex_v<T>) {
      const auto a = math::abs(x);
      return a == 0 ? T(0, 0) : T(x.re / a, x.im / a);
    } else {
      return Sign{}(x);
    }
  }
};
struct Square {
  template <class T>
  RUSH_FN T operator()(T x) const {
    if constexpr (is_integral_v<T>)
      return static_cast<T>(wrapping<T>(x) * wrapping<T>(x));
    else
      return x * x;
  }
};
struct Reciprocal {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return T(1) / x;
  }
  RUSH_FN float coarse(float x) const { return math::quick_divide(1.0f, x); }
};

struct Exp {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::exp(x);
  }
};
struct Exp2 {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::exp2(x);
  }
};
struct Expm1 {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::expm1(x);
  }
  RUSH_FN float coarse(float x) const { return coarse::expm1(x); }
};
struct Log {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::log(x);
  }
};
struct Log2 {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::log2(x);
  }
};
struct Log10 {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::log10(x);
  }
};
struct Log1p {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::log1p(x);
  }
};
struct Sqrt {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::sqrt(x);
  }
  RUSH_FN float coarse(float x) const { return math::quick_sqrt(x); }
};
struct Rsqrt {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::rsqrt(x);
  }
  RUSH_FN float coarse(float x) const { return math::quick_rsqrt(x); }
};
struct Sin {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::limiting::sin(x);
  }
};
struct Cos {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::limiting::cos(x);
  }
};
struct Tan {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::limiting::tan(x);
  }
};
struct Asin {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::limiting::asin(x);
  }
};
struct Acos {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::limiting::acos(x);
  }
};
struct Atan {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::limiting::atan(x);
  }
};
struct Sinh {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::limiting::sinh(x);
  }
};
struct Cosh {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::limiting::cosh(x);
  }
};
struct Tanh {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::limiting::tanh(x);
  }
};
struct Asinh {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::limiting::asinh(x);
  }
};
struct Acosh {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::limiting::acosh(x);
  }
};
struct Atanh {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::limiting::atanh(x);
  }
};
struct Erf {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::erf(x);
  }
};
struct Erfc {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::erfc(x);
  }
};
struct Erfinv {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::erfinv(x);
  }
};
struct Lgamma {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::lgamma(x);
  }
};
struct Digamma {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::digamma(x);
  }
};
struct I0 {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::i0(x);
  }
};
struct I1 {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::i1(x);
  }
};
template <class T>
struct Polygamma {
  double n;
  RUSH_FN T operator()(T x) const {
    return static_cast<T>(math::polygamma(n, static_cast<double>(x)));
  }
};
struct Entr {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::entr(x);
  }
};
struct Sinc {
  template <class T>
  RUSH_FN T operator()(T x) const {
    if constexpr (is_complex_v<T>) {
      const T p = x * math::pi<real_of<T>>;
      return truth(x) ? math::sin(p) / p : T(1);
    } else {
      return math::sinc(x);
    }
  }
};
struct Sigmoid {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::sigmoid(x);
  }
  RUSH_FN float coarse(float x) const { return coarse::sigmoid(x); }
};

struct Floor {
  template <class T>
  RUSH_FN T operator()(T x) const {
    if constexpr (is_integral_v<T>)
      return x;
    else
      return math::floor(x);
  }
};
struct Ceil {
  template <class T>
  RUSH_FN T operator()(T x) const {
    if constexpr (is_integral_v<T>)
      return x;
    else
      return math::ceil(x);
  }
};
struct Trunc {
  template <class T>
  RUSH_FN T operator()(T x) const {
    if constexpr (is_integral_v<T>)
      return x;
    else
      return math::trunc(x);
  }
};
struct Round {
  template <class T>
  RUSH_FN T operator()(T x) const {
    if constexpr (is_integral_v<T>)
      return x;
    else
      return math::round(x);
  }
};
// round(x, decimals): power is 10^|decimals|.
template <class T>
struct RoundDecimals {
  T power;
  bool negative;
  RUSH_FN T operator()(T x) const {
    return negative ? math::round(x / power) * power : math::round(x * power) / power;
  }
};
struct Frac {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return x - math::trunc(x);
  }
};

// x = mantissa 2^exponent, the mantissa in [0.5, 1); zeros, infinities and nan are their own
// mantissas.
struct FrexpMantissa {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::frexp_mantissa(x);
  }
};
struct FrexpExponent {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return math::frexp_exponent(x);
  }
};

struct Deg2rad {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return x * (math::pi<T> / T(180));
  }
};
struct Rad2deg {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return x * T(57.295779513082320876798154814105);
  }
};

struct BitwiseNot {
  template <class T>
  RUSH_FN T operator()(T x) const {
    if constexpr (is_bool<T>)
      return !x;
    else
      return static_cast<T>(~x);
  }
};

struct Conj {
  template <class T>
  RUSH_FN T operator()(T x) const {
    if constexpr (is_complex_v<T>)
      return math::conj(x);
    else
      return x;
  }
};
struct Real {
  template <class T>
  RUSH_FN real_of<T> operator()(T x) const {
    if constexpr (is_complex_v<T>)
      return x.re;
    else
      return x;
  }
};
struct Imag {
  template <class T>
  RUSH_FN real_of<T> operator()(T x) const {
    if constexpr (is_complex_v<T>)
      return x.im;
    else
      return T(0);
  }
};
// The angle of a complex number; of a real one: pi where negative, nan where nan.
struct Angle {
  template <class T>
  RUSH_FN real_of<T> operator()(T x) const {
    if constexpr (is_complex_v<T>)
      return math::arg(x);
    else
      return math::isnan(x) ? x : (x < T(0) ? math::pi<T> : T(0));
  }
};

template <class T>
struct Logit {  // eps < 0: no clamping
  T eps;
  RUSH_FN T operator()(T x) const {
    const T hi = T(1) - eps;
    const T c = x < eps ? eps : (x > hi ? hi : x);
    return math::logit(eps < T(0) ? x : c);
  }
};
template <class T>
struct NanToNum {
  T nan, posinf, neginf;
  RUSH_FN T operator()(T x) const {
    if constexpr (is_float<T>) {
      const T y = x == limits<T>::inf ? posinf : (x == -limits<T>::inf ? neginf : x);
      return math::isnan(x) ? nan : y;
    } else {
      return x;
    }
  }
};
template <class R>
struct NanToNum<complex<R>> {
  R nan, posinf, neginf;
  RUSH_FN complex<R> operator()(complex<R> z) const {
    const NanToNum<R> part{nan, posinf, neginf};
    return {part(z.re), part(z.im)};
  }
};

// The two scalar forms every binary op needs: op(x, scalar) and op(scalar, x).
template <class F, class T>
struct BindRight {
  F f;
  T b;
  RUSH_FN auto operator()(T a) const { return f(a, b); }
};
template <class F, class T>
struct BindLeft {
  F f;
  T a;
  RUSH_FN auto operator()(T b) const { return f(a, b); }
};

}  // namespace rush::functors
