// complex.h: arithmetic and elementary functions of complex<float> and complex<double>.
//
// Infinite and nan parts follow C's Annex G where it costs little (abs, sqrt, exp, division by
// zero); products use the plain formula, as the vector units of every rival do.
#pragma once

#include "math.h"

namespace rush {

template <class T>
RUSH_FN complex<T> operator-(complex<T> a) {
  return {-a.re, -a.im};
}
template <class T>
RUSH_FN complex<T> operator+(complex<T> a, complex<T> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class T>
RUSH_FN complex<T> operator-(complex<T> a, complex<T> b) {
  return {a.re - b.re, a.im - b.im};
}
template <class T>
RUSH_FN complex<T> operator*(complex<T> a, complex<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class T>
RUSH_FN complex<T> operator*(complex<T> a, T b) {
  return {a.re * b, a.im * b};
}
template <class T>
RUSH_FN complex<T> operator*(T a, complex<T> b) {
  return {a * b.re, a * b.im};
}
// Scales by the divisor's larger part, and by a quarter where a sum of two parts could overflow.
template <class T>
RUSH_FN complex<T> operator/(complex<T> a0, complex<T> b0) {
  constexpr T most = limits<T>::max / T(4);
  const bool huge = (math::fabs(a0.re) > most) | (math::fabs(a0.im) > most) |
                    (math::fabs(b0.re) > most) | (math::fabs(b0.im) > most);
  const T k = huge ? T(0.25) : T(1);
  const complex<T> a = a0 * k, b = b0 * k;
  const bool wide = math::fabs(b.re) >= math::fabs(b.im);
  const T big = wide ? b.re : b.im, small = wide ? b.im : b.re;
  const T r = small / big;
  const T den = big + small * r;
  const T re = wide ? a.re + a.im * r : a.re * r + a.im;
  const T im = wide ? a.im - a.re * r : a.im * r - a.re;
  const bool zero = (b.re == T(0)) & (b.im == T(0));
  const T d = zero ? math::fabs(b.re) : den;
  return {(zero ? a.re : re) / d, (zero ? a.im : im) / d};
}
template <class T>
RUSH_FN complex<T> operator/(complex<T> a, T b) {
  return {a.re / b, a.im / b};
}
template <class T>
RUSH_FN complex<T>& operator+=(complex<T>& a, complex<T> b) {
  return a = a + b;
}
template <class T>
RUSH_FN complex<T>& operator-=(complex<T>& a, complex<T> b) {
  return a = a - b;
}
template <class T>
RUSH_FN complex<T>& operator*=(complex<T>& a, complex<T> b) {
  return a = a * b;
}
template <class T>
RUSH_FN complex<T>& operator/=(complex<T>& a, complex<T> b) {
  return a = a / b;
}
template <class T>
RUSH_FN bool operator==(complex<T> a, complex<T> b) {
  return a.re == b.re && a.im == b.im;
}
template <class T>
RUSH_FN bool operator!=(complex<T> a, complex<T> b) {
  return !(a == b);
}

namespace math {

template <class T>
RUSH_FN bool isnan(complex<T> z) {
  return isnan(z.re) || isnan(z.im);
}
template <class T>
RUSH_FN bool isinf(complex<T> z) {
  return isinf(z.re) || isinf(z.im);
}
template <class T>
RUSH_FN bool isfinite(complex<T> z) {
  return isfinite(z.re) && isfinite(z.im);
}
template <class T>
RUSH_FN T abs(complex<T> z) {
  return hypot(z.re, z.im);
}
template <class T>
RUSH_FN T arg(complex<T> z) {
  return atan2(z.im, z.re);
}
template <class T>
RUSH_FN complex<T> conj(complex<T> z) {
  return {z.re, -z.im};
}
template <class T>
RUSH_FN complex<T> times_i(complex<T> z) {
  return {-z.im, z.re};
}
template <class T>
RUSH_FN complex<T> over_i(complex<T> z) {
  return {z.im, -z.re};
}

template <class T>
RUSH_FN complex<T> exp(complex<T> z) {
  const T e = exp(z.re);
  const bool real = z.im == T(0);
  const T c = e * cos(z.im), s = e * sin(z.im);
  // e^-inf is zero whatever the angle, e^x real for a real x
  if (z.re == -limits<T>::inf && !isfinite(z.im)) return {T(0), T(0)};
  if (z.re == limits<T>::inf && !isfinite(z.im)) return {z.re, z.im - z.im};
  return {real ? e : c, real ? z.im : s};
}
template <class T>
RUSH_FN complex<T> exp2(complex<T> z) {
  return exp(z * ln_2<T>);
}

// log|z|: near the unit circle through log1p of |z|^2 - 1, formed without cancellation.
template <class T>
RUSH_FN T log_abs(complex<T> z) {
  const T a = fabs(z.re), b = fabs(z.im);
  const T hi = a > b ? a : b, lo = a > b ? b : a;
  const T h = hypot(a, b);
  if (h > T(0.5) && h < T(2)) {
    const Pair<T> p = two_prod(hi, hi), q = two_prod(lo, lo);
    const Pair<T> s = two_sum(p.hi - T(1), q.hi);
    return T(0.5) * log1p(s.hi + (s.lo + (p.lo + q.lo)));
  }
  if (isinf(h) && isfinite(hi)) return log(hypot(a * T(0.5), b * T(0.5))) + ln_2<T>;
  return log(h);
}
template <class T>
RUSH_FN complex<T> log(complex<T> z) {
  return {log_abs(z), arg(z)};
}
template <class T>
RUSH_FN complex<T> log2(complex<T> z) {
  return log(z) * log2_e<T>;
}
template <class T>
RUSH_FN complex<T> log10(complex<T> z) {
  return log(z) * T(0x1.bcb7b1526e50ep-2);
}
template <class T>
RUSH_FN complex<T> log1p(complex<T> z) {
  const complex<T> w = {T(1) + z.re, z.im};
  if (fabs(z.re) < T(0.5) && fabs(z.im) < T(0.5)) {  // |1 + z|^2 - 1 = 2 re + re^2 + im^2
    const T s = fma(z.re, z.re, fma(z.im, z.im, T(2) * z.re));
    return {T(0.5) * log1p(s), arg(w)};
  }
  return log(w);
}
template <class T>
RUSH_FN complex<T> expm1(complex<T> z) {
  // e^x cos y - 1 = expm1(x) cos y - 2 sin^2(y/2)
  const T s = sin(z.im * T(0.5));
  return {expm1(z.re) * cos(z.im) - T(2) * s * s, exp(z.re) * sin(z.im)};
}

template <class T>
RUSH_FN complex<T> sqrt(complex<T> z) {
  if (isinf(z.im)) return {limits<T>::inf, z.im};
  if (isinf(z.re)) {
    if (z.re > T(0)) return {z.re, isnan(z.im) ? z.im : copysign(T(0), z.im)};
    return {isnan(z.im) ? z.im : T(0), copysign(limits<T>::inf, z.im)};
  }
  if (z.re == T(0) && z.im == T(0)) return {T(0), z.im};
  // Scaled by 4^k, so that |z| + |re| neither overflows nor is denormal.
  constexpr bool f = is_same<T, float>;
  const T big = max_of(fabs(z.re), fabs(z.im));
  const bool huge = big > (f ? T(0x1p120) : T(0x1p1000));
  const bool tiny = big < (f ? T(0x1p-100) : T(0x1p-900));
  const T in = huge ? T(0x1p-8) : (tiny ? (f ? T(0x1p50) : T(0x1p200)) : T(1));
  const T out = huge ? T(0x1p4) : (tiny ? (f ? T(0x1p-25) : T(0x1p-100)) : T(1));
  const T x = z.re * in, y = z.im * in;
  const T t = sqrt(T(0.5) * (fabs(x) + hypot(x, y)));
  const T u = y / (T(2) * t);
  return x >= T(0) ? complex<T>(t * out, u * out)
                   : complex<T>(fabs(u) * out, copysign(t, z.im) * out);
}
template <class T>
RUSH_FN complex<T> rsqrt(complex<T> z) {
  return complex<T>(T(1)) / sqrt(z);
}

template <class T>
RUSH_FN complex<T> sinh(complex<T> z) {
  return {sinh(z.re) * cos(z.im), cosh(z.re) * sin(z.im)};
}
template <class T>
RUSH_FN complex<T> cosh(complex<T> z) {
  return {cosh(z.re) * cos(z.im), sinh(z.re) * sin(z.im)};
}
// tanh(x + iy) = (sinh x cosh x + i sin y cos y) / (sinh^2 x + cos^2 y)
template <class T>
RUSH_FN complex<T> tanh(complex<T> z) {
  const T s = sin(z.im), c = cos(z.im);
  if (fabs(z.re) > T(22)) {
    const T e = exp(-fabs(z.re));
    return {copysign(T(1), z.re), T(4) * s * c * e * e};
  }
  const T sh = sinh(z.re), ch = cosh(z.re), d = fma(sh, sh, c * c);
  return {sh * ch / d, s * c / d};
}
template <class T>
RUSH_FN complex<T> sin(complex<T> z) {
  return over_i(sinh(times_i(z)));
}
template <class T>
RUSH_FN complex<T> cos(complex<T> z) {
  return cosh(times_i(z));
}
template <class T>
RUSH_FN complex<T> tan(complex<T> z) {
  return over_i(tanh(times_i(z)));
}

// Kahan's formulas: right on the branch cuts, no cancellation.
template <class T>
RUSH_FN complex<T> asinh(complex<T> z) {
  const complex<T> a = sqrt(complex<T>(T(1) + z.im, -z.re));
  const complex<T> b = sqrt(complex<T>(T(1) - z.im, z.re));
  return {asinh(a.re * b.im - b.re * a.im), atan2(z.im, a.re * b.re - a.im * b.im)};
}
template <class T>
RUSH_FN complex<T> asin(complex<T> z) {
  return over_i(asinh(times_i(z)));
}
template <class T>
RUSH_FN complex<T> acos(complex<T> z) {
  const complex<T> a = sqrt(complex<T>(T(1) - z.re, -z.im));
  const complex<T> b = sqrt(complex<T>(T(1) + z.re, z.im));
  return {T(2) * atan2(a.re, b.re), asinh(b.re * a.im - b.im * a.re)};
}
template <class T>
RUSH_FN complex<T> acosh(complex<T> z) {
  const complex<T> a = sqrt(complex<T>(z.re - T(1), z.im));
  const complex<T> b = sqrt(complex<T>(z.re + T(1), z.im));
  return {asinh(a.re * b.re + a.im * b.im), T(2) * atan2(a.im, b.re)};
}
template <class T>
RUSH_FN complex<T> atanh(complex<T> z) {
  const T x = fabs(z.re), y = z.im, d = fma(T(1) - x, T(1) - x, y * y);  // odd in x
  return {copysign(T(0.25) * log1p(T(4) * x / d), z.re),
          T(0.5) * atan2(T(2) * y, (T(1) - x) * (T(1) + x) - y * y)};
}
template <class T>
RUSH_FN complex<T> atan(complex<T> z) {
  return over_i(atanh(times_i(z)));
}

template <class T>
RUSH_FN complex<T> logaddexp(complex<T> a, complex<T> b) {
  const complex<T> hi = a.re > b.re ? a : b, lo = a.re > b.re ? b : a;
  return a == b && isinf(a.re) ? a : hi + log1p(exp(lo - hi));
}
template <class T>
RUSH_FN complex<T> sigmoid(complex<T> z) {
  return complex<T>(T(1)) / (complex<T>(T(1)) + exp(-z));
}
template <class T>
RUSH_FN complex<T> pow(complex<T> a, complex<T> b) {
  if (b.re == T(0) && b.im == T(0)) return {T(1), T(0)};
  if (a.re == T(0) && a.im == T(0)) {
    return b.re > T(0) ? complex<T>(T(0), T(0)) : complex<T>(limits<T>::nan, limits<T>::nan);
  }
  if (b.im == T(0)) {  // the powers people write stay exact
    if (b.re == T(1)) return a;
    if (b.re == T(2)) return a * a;
    if (b.re == T(0.5)) return sqrt(a);
    if (b.re == T(-1)) return complex<T>(T(1)) / a;
  }
  return exp(b * log(a));
}

}  // namespace math
}  // namespace rush
