// complex_limits.h: elementary functions of complex numbers with infinite and nan parts as C's
// Annex G has them. The formulas of complex.h serve finite numbers.
#pragma once

#include "complex.h"

namespace rush::math::limiting {

template <class T>
inline constexpr T quarter_pi = pi<T> / T(4);

// Real numbers have their limits in the functions themselves.
template <class T>
RUSH_FN T sinh(T x) {
  return math::sinh(x);
}
template <class T>
RUSH_FN complex<T> sinh(complex<T> z) {
  if (z.im == T(0)) return {math::sinh(z.re), z.im};
  if (!isfinite(z.im) && (z.re == T(0) || isinf(z.re))) return {z.re, limits<T>::nan};
  return math::sinh(z);
}

template <class T>
RUSH_FN T cosh(T x) {
  return math::cosh(x);
}
template <class T>
RUSH_FN complex<T> cosh(complex<T> z) {
  if (z.im == T(0)) return {math::cosh(z.re), copysign(T(1), z.re) * z.im};
  if (!isfinite(z.im) && z.re == T(0)) return {limits<T>::nan, T(0)};
  if (!isfinite(z.im) && isinf(z.re)) return {limits<T>::inf, limits<T>::nan};
  return math::cosh(z);
}

template <class T>
RUSH_FN T tanh(T x) {
  return math::tanh(x);
}
template <class T>
RUSH_FN complex<T> tanh(complex<T> z) {
  if (z.im == T(0)) return {math::tanh(z.re), z.im};
  if (isfinite(z.im)) return math::tanh(z);
  if (isinf(z.re)) return {copysign(T(1), z.re), copysign(T(0), z.im)};
  return {z.re == T(0) ? z.re : limits<T>::nan, limits<T>::nan};
}

template <class T>
RUSH_FN T sin(T x) {
  return math::sin(x);
}
template <class T>
RUSH_FN complex<T> sin(complex<T> z) {
  return over_i(limiting::sinh(times_i(z)));
}
template <class T>
RUSH_FN T cos(T x) {
  return math::cos(x);
}
template <class T>
RUSH_FN complex<T> cos(complex<T> z) {
  return limiting::cosh(times_i(z));
}
template <class T>
RUSH_FN T tan(T x) {
  return math::tan(x);
}
template <class T>
RUSH_FN complex<T> tan(complex<T> z) {
  return over_i(limiting::tanh(times_i(z)));
}

template <class T>
RUSH_FN T asinh(T x) {
  return math::asinh(x);
}
template <class T>
RUSH_FN complex<T> asinh(complex<T> z) {
  if (isinf(z.im)) {
    const T angle = isinf(z.re) ? quarter_pi<T> : T(2) * quarter_pi<T>;
    return {copysign(limits<T>::inf, z.re), isnan(z.re) ? z.re : copysign(angle, z.im)};
  }
  if (isinf(z.re)) return {z.re, isnan(z.im) ? z.im : copysign(T(0), z.im)};
  if (isnan(z.re) && z.im == T(0)) return z;
  return math::asinh(z);
}

template <class T>
RUSH_FN T acos(T x) {
  return math::acos(x);
}
template <class T>
RUSH_FN complex<T> acos(complex<T> z) {
  const T fall = -copysign(limits<T>::inf, z.im);
  if (isinf(z.re)) {
    if (isnan(z.im)) return {z.im, -limits<T>::inf};
    const T turns = isinf(z.im) ? (z.re > T(0) ? T(1) : T(3)) : (z.re > T(0) ? T(0) : T(4));
    return {turns * quarter_pi<T>, fall};
  }
  if (isinf(z.im)) return {isnan(z.re) ? z.re : T(2) * quarter_pi<T>, fall};
  if (z.re == T(0) && isnan(z.im)) return {T(2) * quarter_pi<T>, z.im};
  return math::acos(z);
}

template <class T>
RUSH_FN T acosh(T x) {
  return math::acosh(x);
}
template <class T>
RUSH_FN complex<T> acosh(complex<T> z) {
  if (isfinite(z)) return math::acosh(z);
  const complex<T> w = limiting::acos(z);
  return {fabs(w.im), copysign(w.re, z.im)};
}

template <class T>
RUSH_FN T atanh(T x) {
  return math::atanh(x);
}
template <class T>
RUSH_FN complex<T> atanh(complex<T> z) {
  const T right = copysign(T(2) * quarter_pi<T>, z.im);
  if (isinf(z.im)) return {copysign(T(0), z.re), right};
  if (isinf(z.re)) return {copysign(T(0), z.re), isnan(z.im) ? z.im : right};
  if (z.re == T(0) && isnan(z.im)) return z;
  const T m = fabs(z.re) > fabs(z.im) ? fabs(z.re) : fabs(z.im);
  if (m > (is_same<T, float> ? T(1e15) : T(1e100))) {  // 1 / z, whose square would overflow
    const T x = z.re / m, y = z.im / m;
    return {x / (x * x + y * y) / m, right};
  }
  return math::atanh(z);
}

template <class T>
RUSH_FN T asin(T x) {
  return math::asin(x);
}
template <class T>
RUSH_FN complex<T> asin(complex<T> z) {
  return over_i(limiting::asinh(times_i(z)));
}
template <class T>
RUSH_FN T atan(T x) {
  return math::atan(x);
}
template <class T>
RUSH_FN complex<T> atan(complex<T> z) {
  return over_i(limiting::atanh(times_i(z)));
}

}  // namespace rush::math::limiting
