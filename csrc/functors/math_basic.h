// math_basic.h: bits, rounding and sign of floats; what every other maths header stands on.
#pragma once

#include "types.h"

namespace rush::math {

template <class T>
using bits_of = unsigned_of<T>;
template <class T>
inline constexpr int mantissa_bits = is_same<T, float> ? 23 : 52;
template <class T>
inline constexpr int exponent_bias = is_same<T, float> ? 127 : 1023;
template <class T>
inline constexpr bits_of<T> sign_mask = bits_of<T>(1) << (8 * sizeof(T) - 1);
template <class T>
inline constexpr bits_of<T> inf_bits =
    static_cast<bits_of<T>>(2 * exponent_bias<T> + 1) << mantissa_bits<T>;

// A fused multiply-add where the target has one, else two roundings (g++ would call a slow
// function). Use only where either answer is right; fma_exact is for when it must be fused.
#if defined(RUSH_DEVICE) || defined(RUSH_EXACT_MATH) || defined(__FMA__)
inline constexpr bool has_fma = true;
#else
inline constexpr bool has_fma = false;
#endif
#ifdef RUSH_DEVICE
RUSH_FN float fma_exact(float a, float b, float c) { return ::fmaf(a, b, c); }
RUSH_FN double fma_exact(double a, double b, double c) { return ::fma(a, b, c); }
#else
RUSH_FN float fma_exact(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
RUSH_FN double fma_exact(double a, double b, double c) { return __builtin_fma(a, b, c); }
#endif
template <class T>
RUSH_FN T fma(T a, T b, T c) {
  if constexpr (has_fma) return fma_exact(a, b, c);
  return a * b + c;
}

// Horner: poly(x, c0, c1, ...) = c0 + x (c1 + x (...)).
template <class T>
RUSH_FN T poly(T, T c0) {
  return c0;
}
template <class T, class... C>
RUSH_FN T poly(T x, T c0, T c1, C... c) {
  return fma(x, poly(x, c1, c...), c0);
}

template <class T>
RUSH_FN bits_of<T> to_bits(T x) {
  return bit_cast<bits_of<T>>(x);
}
template <class T>
RUSH_FN T from_bits(bits_of<T> b) {
  return bit_cast<T>(b);
}

template <class T>
RUSH_FN bool isnan(T x) {
  if constexpr (is_float<T>)
    return x != x;
  else
    return false;
}
template <class T>
RUSH_FN T fmax(T a, T b) {  // NaN loses
  return (a > b) | isnan(b) ? a : b;
}
template <class T>
RUSH_FN T fabs(T x) {
  return from_bits<T>(to_bits(x) & ~sign_mask<T>);
}
template <class T>
RUSH_FN bool isinf(T x) {
  if constexpr (is_float<T>)
    return fabs(x) == limits<T>::inf;
  else
    return false;
}
template <class T>
RUSH_FN bool isfinite(T x) {
  if constexpr (is_float<T>)
    return fabs(x) <= limits<T>::max;
  else
    return true;
}
template <class T>
RUSH_FN bool signbit(T x) {
  if constexpr (is_float<T>)
    return (to_bits(x) & sign_mask<T>) != 0;
  else
    return x < T(0);
}
template <class T>
RUSH_FN T copysign(T x, T s) {
  return from_bits<T>((to_bits(x) & ~sign_mask<T>) | (to_bits(s) & sign_mask<T>));
}
// x with its sign flipped where s is negative.
template <class T>
RUSH_FN T mulsign(T x, T s) {
  return from_bits<T>(to_bits(x) ^ (to_bits(s) & sign_mask<T>));
}

#ifdef RUSH_DEVICE
RUSH_FN float floor(float x) { return ::floorf(x); }
RUSH_FN double floor(double x) { return ::floor(x); }
RUSH_FN float ceil(float x) { return ::ceilf(x); }
RUSH_FN double ceil(double x) { return ::ceil(x); }
RUSH_FN float trunc(float x) { return ::truncf(x); }
RUSH_FN double trunc(double x) { return ::trunc(x); }
RUSH_FN float round(float x) { return ::rintf(x); }
RUSH_FN double round(double x) { return ::rint(x); }
RUSH_FN float sqrt(float x) { return ::sqrtf(x); }
RUSH_FN double sqrt(double x) { return ::sqrt(x); }
#else
// With SSE4.1 each is one instruction; without it g++ would call libm, so we add and take away
// 2^23 (2^52), which rounds to an integer in the current mode, and correct by one.
template <class T>
RUSH_FN T round_by_magic(T x) {
  constexpr T big = is_same<T, float> ? T(0x1p23) : T(0x1p52);
  const T a = fabs(x);
  const T r = (a + big) - big;
  return a < big ? copysign(r, x) : x;  // nan keeps itself: the comparison is false
}
#ifdef __SSE4_1__
RUSH_FN float round(float x) { return __builtin_rintf(x); }
RUSH_FN double round(double x) { return __builtin_rint(x); }
RUSH_FN float floor(float x) { return __builtin_floorf(x); }
RUSH_FN double floor(double x) { return __builtin_floor(x); }
RUSH_FN float ceil(float x) { return __builtin_ceilf(x); }
RUSH_FN double ceil(double x) { return __builtin_ceil(x); }
RUSH_FN float trunc(float x) { return __builtin_truncf(x); }
RUSH_FN double trunc(double x) { return __builtin_trunc(x); }
#else
template <class T>
RUSH_FN T round(T x) {
  return round_by_magic(x);
}
template <class T>
RUSH_FN T floor(T x) {
  const T r = round_by_magic(x);
  return copysign(r > x ? r - T(1) : r, x);
}
template <class T>
RUSH_FN T ceil(T x) {
  const T r = round_by_magic(x);
  return copysign(r < x ? r + T(1) : r, x);
}
template <class T>
RUSH_FN T trunc(T x) {
  const T a = fabs(x), r = round_by_magic(a);
  return copysign(r > a ? r - T(1) : r, x);
}
#endif
RUSH_FN float sqrt(float x) { return __builtin_sqrtf(x); }
RUSH_FN double sqrt(double x) { return __builtin_sqrt(x); }
#endif

// The hardware approximation of rsqrt is good to 12 bits only; two roundings are within an ulp.
template <class T>
RUSH_FN T rsqrt(T x) {
  return T(1) / sqrt(x);
}

// a + b = s + e exactly, a * b = p + e exactly: the bricks of double-double arithmetic.
template <class T>
struct Pair {
  T hi, lo;
};
template <class T>
RUSH_FN Pair<T> two_sum(T a, T b) {
  const T s = a + b, bb = s - a;
  return {s, (a - (s - bb)) + (b - bb)};
}
template <class T>
RUSH_FN Pair<T> quick_two_sum(T a, T b) {  // |a| >= |b|
  const T s = a + b;
  return {s, b - (s - a)};
}
template <class T>
RUSH_FN Pair<T> two_prod(T a, T b) {
  const T p = a * b;
  if constexpr (has_fma) {
    return {p, fma_exact(a, b, -p)};
  } else {  // Dekker; each factor is split by rounding its bits, so that both parts are short
    constexpr int low = is_same<T, float> ? 12 : 27;
    constexpr bits_of<T> unit = 1;
    const T ah = from_bits<T>((to_bits(a) + (unit << (low - 1))) & ~((unit << low) - 1));
    const T bh = from_bits<T>((to_bits(b) + (unit << (low - 1))) & ~((unit << low) - 1));
    const T al = a - ah, bl = b - bh;
    return {p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
  }
}

// 2^n for n in the normal range, by writing the exponent. n comes as a float holding an integer.
template <class T>
RUSH_FN T pow2_normal(T n) {
  // Adding 1.5 * 2^23 (2^52) leaves the integer in the low bits, whatever its sign.
  constexpr T magic = is_same<T, float> ? T(0x1.8p23) : T(0x1.8p52);
  return from_bits<T>((to_bits(n + (magic + T(exponent_bias<T>)))) << mantissa_bits<T>);
}
// The integer n nearest to a x, |a x| < 2^21 (2^50), and the sum that it was found by, whose lowest
// bits are n + shift: with the exponent's bias as shift, 2^n takes no more than moving them.
template <class T>
struct Nearest {
  T n, sum;
};
template <class T>
RUSH_FN Nearest<T> nearest_integer(T x, T a, int shift) {
  const T magic = (is_same<T, float> ? T(0x1.8p23) : T(0x1.8p52)) + T(shift);
  const T sum = fma(x, a, magic);
  return {sum - magic, sum};
}
template <class T>
RUSH_FN T pow2_of_sum(T sum) {
  return from_bits<T>(to_bits(sum) << mantissa_bits<T>);
}
// y 2^n for |n| up to twice the normal range, by two factors, of which the last one alone rounds
// where the result is denormal. The sum's shift is twice the bias, one for each factor. (Without
// conditions: g++ would make a branch of one that follows from another.)
template <class T>
RUSH_FN T scaled_by_sum(T y, T sum) {
  const bits_of<T> b = to_bits(sum), half = b >> 1;
  constexpr int mb = mantissa_bits<T>;
  return (y * from_bits<T>(half << mb)) * from_bits<T>((b - half) << mb);
}
template <class T>
RUSH_FN T round_small(T x) {  // |x| < 2^22 (2^51)
  constexpr T magic = is_same<T, float> ? T(0x1.8p23) : T(0x1.8p52);
  return (x + magic) - magic;
}

template <class T>
RUSH_FN T nextafter(T x, T y) {
  const bits_of<T> b = to_bits(x);
  const bool up = (x < y) == (x > T(0));  // away from zero
  const T step = from_bits<T>(up ? b + 1 : b - 1);
  const T from_zero = from_bits<T>((to_bits(y) & sign_mask<T>) | 1u);
  const T moved = x == T(0) ? from_zero : step;
  const T r = x == y ? y : moved;
  return isnan(x) | isnan(y) ? x + y : r;
}

template <class T>
RUSH_FN T ldexp(T x, T n) {
  // Three factors reach from the smallest denormal to the largest number and back. A half first,
  // so that no factor leaves the normal range.
  constexpr T limit = is_same<T, float> ? T(300) : T(2200);
  const T m = n > limit ? limit : (n < -limit ? -limit : n);
  constexpr T magic = is_same<T, float> ? T(0x1.8p23) : T(0x1.8p52);
  const T a = (m * T(0.25) + magic) - magic, b = m - T(3) * a;
  const T p = pow2_normal(a);
  return ((x * p) * p) * p * pow2_normal(b);
}

// ---- integers ----

template <class T>
RUSH_FN T max_of(T a, T b) {
  return a < b ? b : a;
}
template <class T>
RUSH_FN T min_of(T a, T b) {
  return b < a ? b : a;
}

}  // namespace rush::math
