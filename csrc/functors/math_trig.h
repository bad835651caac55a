// math_trig.h (host): sine, cosine, tangent and their inverses, branch-free and right for every
// argument, however large.
//
// Note [Range reduction]
// We want x 2/pi mod 4 to full relative precision. Write x = 2^s y: where y is an integer, whole
// turns may be dropped from the constant, C = (2^s 2/pi) mod 4, and y C mod 4 is what we want, with
// nothing large formed that matters. C is held in four parts, so that the leading products are
// exact and the last one is small.
// - float: s is one of three values picked by selects; 24-bit y times a 28-bit part is exact in
//   double, with or without a fused multiply-add.
// - double: s follows the exponent in steps of 32; the parts come from a table (a gather), and the
//   products are pairs. Most of the time goes there: 4.5 ns per element at AVX-512, float 1.1.
#pragma once

#include "math_basic.h"
#include "math_trig_table.h"

namespace rush::math {

// x = (quadrant + 4 k) pi/2 + hi + lo with |hi| <= pi/4 and a bit.
template <class T>
struct Reduced {
  T hi, lo;
  bits_of<T> quadrant;
};

RUSH_FN Reduced<double> reduce_float(float x0) {
  const double x = static_cast<double>(x0), a = fabs(x);
  const bool mid = a >= 0x1p43, far = a >= 0x1p86;
  const double scale = far ? 0x1p-63 : (mid ? 0x1p-20 : 1.0);
  const double c1 = far ? 0x1.fc2758p-1 : (mid ? 0x1.b72722p-3 : 0x1.45f307p-1);
  const double c2 = far ? -0x1.705659p-28 : (mid ? 0x1.529fc4p-32 : -0x1.1b1bbecp-28);
  const double c3 = far ? -0x1.1f924ecp-56 : (mid ? -0x1.8a82e0cp-56 : 0x1.29fc274p-56);
  const double c4 =
      far ? 0x1.5993c439041fep-85 : (mid ? 0x1.34ddc0db6295ap-84 : 0x1.7d1f534ddc0dbp-84);
  const double y = x * scale, p = y * c1;
  const double n1 = round(p), f1 = fma(y, c2, p - n1);
  const double n2 = round(f1), f2 = fma(y, c3, f1 - n2);
  const double n3 = round(f2), f3 = fma(y, c4, f2 - n3);
  const double quarters = (n1 - 4.0 * round(0.25 * n1)) + (n2 + n3);
  return {f3 * 0x1.921fb54442d18p+0, 0.0, to_bits(quarters + 0x1.8p52)};
}

template <class T>
RUSH_FN T mod4(T x) {
  return x - T(4) * round(T(0.25) * x);
}  // exact

RUSH_FN Reduced<double> reduce(double x) {
  // Up to 2^65 s is zero; from there y is an integer. An infinite x ends as inf - inf.
  const u64 row = (to_bits(x) >> 57) & 63;
  const double s0 = from_bits<double>((u64(2098) - 32 * row) << 52);
  const double y = x * (row < 34 ? 1.0 : s0);
  const Pair<double> p = two_prod(y, two_over_pi_1[row]), q = two_prod(y, two_over_pi_2[row]);
  const Pair<double> w = two_prod(y, two_over_pi_3[row]);
  const Pair<double> a = two_sum(mod4(p.hi), mod4(p.lo)), b = two_sum(a.hi, mod4(q.hi));
  const Pair<double> c = two_sum(a.lo, b.lo);
  const double t = b.hi + 0x1.8p52;
  // What is left may cancel down to 2^-62, so every leading term is added exactly.
  const Pair<double> f = two_sum(b.hi - (t - 0x1.8p52), c.hi);
  const Pair<double> g = two_sum(f.hi, q.lo), h = two_sum(g.hi, w.hi);
  const double low = ((c.lo + f.lo) + (g.lo + h.lo)) + fma(y, two_over_pi_4[row], w.lo);
  const Pair<double> r = two_sum(h.hi, low);
  constexpr double hi = 0x1.921fb54442d18p+0, lo = 0x1.1a62633145c07p-54;  // pi / 2
  const Pair<double> s = two_prod(r.hi, hi);
  const Pair<double> z = quick_two_sum(s.hi, s.lo + fma(r.hi, lo, r.lo * hi));
  const bool small = fabs(x) < 0.78;  // already reduced; the products would lose denormals
  return {small ? x : z.hi, small ? 0.0 : z.lo, small ? 0 : to_bits(t)};
}

// sin and cos of hi + lo, |hi| <= pi/4 and a bit.
RUSH_FN float sin_poly(float r) {
  const float z = r * r;
  return fma(r * z, poly(z, -0x1.555556p-3f, 0x1.11110ep-7f, -0x1.a01366p-13f, 0x1.6da8ecp-19f), r);
}
RUSH_FN float cos_poly(float r) {
  const float z = r * r;
  const float p = poly(z, 0x1.555554p-5f, -0x1.6c12aap-10f, 0x1.9bc2d4p-16f);
  return fma(z, fma(z, p, -0.5f), 1.0f);
}
RUSH_FN double sin_poly(double r, double lo) {
  const double z = r * r;
  const double p = poly(z, -0x1.5555555555555p-3, 0x1.1111111111110p-7, -0x1.a01a01a019880p-13,
                        0x1.71de3a544a6cep-19, -0x1.ae6453ecab5c3p-26, 0x1.6121612670151p-33,
                        -0x1.ab066192d18c1p-41);
  return r + fma(r * z, p, fma(-0.5 * z, lo, lo));
}
RUSH_FN double cos_poly(double r, double lo) {
  const double z = r * r, h = 0.5 * z, w = 1.0 - h;
  const double p = poly(z, 0x1.5555555555555p-5, -0x1.6c16c16c1691fp-10, 0x1.a01a019f3dde1p-16,
                        -0x1.27e4fa0241f7cp-22, 0x1.1eeb52a201d68p-29, -0x1.906dbf4fd7dd4p-37);
  return w + (((1.0 - w) - h) + fma(z * z, p, -r * lo));
}

// sin of (quadrant turns + r): shift 0 gives the sine, 1 the cosine.
template <u32 shift>
RUSH_FN float sin_shifted(float x) {
  const Reduced<double> d = reduce_float(x);
  const float r = static_cast<float>(d.hi);
  const u32 q = static_cast<u32>(d.quadrant) + shift;
  const float y = (q & 1) != 0 ? cos_poly(r) : sin_poly(r);
  const float z = from_bits<float>(to_bits(y) ^ ((q & 2) << 30));
  if constexpr (shift == 0) return x == 0.0f ? x : z;
  return z;
}
template <u32 shift>
RUSH_FN double sin_shifted(double x) {
  const Reduced<double> d = reduce(x);
  const u64 q = d.quadrant + shift;
  const double y = (q & 1) != 0 ? cos_poly(d.hi, d.lo) : sin_poly(d.hi, d.lo);
  const double z = from_bits<double>(to_bits(y) ^ ((q & 2) << 62));
  if constexpr (shift == 0) return x == 0.0 ? x : z;
  return z;
}
RUSH_FN float sin(float x) { return sin_shifted<0>(x); }
RUSH_FN double sin(double x) { return sin_shifted<0>(x); }
RUSH_FN float cos(float x) { return sin_shifted<1>(x); }
RUSH_FN double cos(double x) { return sin_shifted<1>(x); }

RUSH_FN double tan_reduced(Reduced<double> d) {
  const double s = sin_poly(d.hi, d.lo), c = cos_poly(d.hi, d.lo);
  const bool flip = (d.quadrant & 1) != 0;
  return (flip ? -c : s) / (flip ? s : c);
}
RUSH_FN float tan(float x) {
  const float y = static_cast<float>(tan_reduced(reduce_float(x)));
  return x == 0.0f ? x : y;
}
RUSH_FN double tan(double x) {
  const double y = tan_reduced(reduce(x));
  return x == 0.0 ? x : y;
}

// ---- inverses ----

// (asin(t) - t) / t^3 in z = t^2, t <= 1/2.
RUSH_FN float asin_tail(float z) {
  return poly(z, 0x1.555554p-3f, 0x1.333430p-4f, 0x1.6d5bbap-5f, 0x1.fd8da2p-6f, 0x1.18f91ep-6f,
              0x1.13fed4p-5f);
}
RUSH_FN double asin_tail(double z) {
  return poly(z, 0x1.5555555555556p-3, 0x1.3333333332ecap-4, 0x1.6db6db6e31f13p-5,
              0x1.f1c71c1db0622p-6, 0x1.6e8bb1c8209ccp-6, 0x1.1c4d35cf950dcp-6,
              0x1.c9cf07674c856p-7, 0x1.782651ca780a0p-7, 0x1.52420b05c4cc6p-7,
              0x1.65a9c4d7641cfp-8, 0x1.1d18940d8055ap-6, -0x1.e6aaa8b01d02ep-7,
              0x1.d72b2bcd0d60dp-6);
}
template <class T>
inline constexpr T pi_half = T(0x1.921fb54442d18p+0);
template <class T>
inline constexpr T pi_half_lo = is_same<T, float> ? T(-0x1.777a5cp-25f) : T(0x1.1a62633145c07p-54);

// Above 1/2: asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)).
template <class T>
RUSH_FN T asin_any(T x) {
  const T a = fabs(x);
  const bool big = a > T(0.5);
  const T z = big ? T(0.5) * (T(1) - a) : a * a;
  const T t = big ? sqrt(z) : a;
  const T tail = t * z * asin_tail(z);
  const T w = (pi_half<T> - T(2) * t) - (T(2) * tail - pi_half_lo<T>);
  return copysign(big ? w : t + tail, x);
}
template <class T>
RUSH_FN T acos_any(T x) {
  const T a = fabs(x);
  const bool big = a > T(0.5);
  const T z = big ? T(0.5) * (T(1) - a) : a * a;
  const T t = big ? sqrt(z) : a;
  const T tail = t * z * asin_tail(z);
  const T y = t + tail;
  const T near = pi_half<T> - (mulsign(t, x) - (pi_half_lo<T> - mulsign(tail, x)));
  const T far = x < T(0) ? T(2) * pi_half<T> - (T(2) * y - T(2) * pi_half_lo<T>) : T(2) * y;
  return big ? far : near;
}
RUSH_FN float asin(float x) { return asin_any(x); }
RUSH_FN double asin(double x) { return asin_any(x); }
RUSH_FN float acos(float x) { return acos_any(x); }
RUSH_FN double acos(double x) { return acos_any(x); }

// (atan(t) - t) / t^3 in z = t^2, t <= tan(pi/8).
RUSH_FN float atan_tail(float z) {
  return poly(z, -0x1.555554p-2f, 0x1.99972ep-3f, -0x1.241fe6p-3f, 0x1.b80990p-4f, -0x1.082f6cp-4f);
}
RUSH_FN double atan_tail(double z) {
  return poly(z, -0x1.5555555555555p-2, 0x1.999999999933dp-3, -0x1.24924924355d5p-3,
              0x1.c71c7184c32bep-4, -0x1.745d0b153ff8fp-4, 0x1.3b126143b5a86p-4,
              -0x1.10fa5ee9a9803p-4, 0x1.dfe49b2900fe1p-5, -0x1.a090d1949adadp-5,
              0x1.41495cee8f872p-5, -0x1.39f38ad1c4273p-6);
}
template <class T>
RUSH_FN T atan_any(T x) {
  const T a = fabs(x);
  const bool high = a > T(2.414213562373095), middle = a > T(0.41421356237309503);
  const T num = high ? T(-1) : (middle ? a - T(1) : a);
  const T den = high ? a : (middle ? a + T(1) : T(1));
  const T base = high ? pi_half<T> : (middle ? T(0.5) * pi_half<T> : T(0));
  const T base_lo = high ? pi_half_lo<T> : (middle ? T(0.5) * pi_half_lo<T> : T(0));
  const T t = num / den, z = t * t;
  return copysign(base + (t + fma(t * z, atan_tail(z), base_lo)), x);
}
RUSH_FN float atan(float x) { return atan_any(x); }
RUSH_FN double atan(double x) { return atan_any(x); }

RUSH_FN double atan2(double y, double x) {
  const double a0 = fabs(y), b0 = fabs(x);
  const double big = max_of(a0, b0);
  const double scale = big > 0x1p1000 ? 0x1p-4 : (big < 0x1p-900 ? 0x1p120 : 1.0);
  const bool both_inf = (a0 == limits<double>::inf) & (b0 == limits<double>::inf);
  const double a = both_inf ? 1.0 : a0 * scale, b = both_inf ? 1.0 : b0 * scale;
  const bool swap = a > b;
  const double n = swap ? b : a, d = swap ? a : b;  // n / d <= 1
  const bool middle = n > 0.41421356237309503 * d;
  const double num = middle ? n - d : n, den = middle ? n + d : d;
  const double q = num / den;
  const double t = den == 0.0 ? 0.0 : q, z = t * t;
  const double quarter = 0.5 * pi_half<double>, quarter_lo = 0.5 * pi_half_lo<double>;
  // angle = base + t + tail, then reflected by up to two signs; the constants collect exactly
  const double tail = t * z * atan_tail(z);
  const bool left = signbit(x);
  const double turned = swap ? -1.0 : 1.0, sign = left ? -turned : turned;
  const double c0 = middle ? 1.0 : 0.0;
  const double c = fma(sign, c0, swap ? 2.0 : (left ? 4.0 : 0.0));
  const double r = fma(c, quarter, fma(sign, t, fma(c, quarter_lo, sign * tail)));
  const double s = (x != x) | (y != y) ? x + y : r;
  return copysign(s, y);
}
RUSH_FN float atan2(float y, float x) {
  return static_cast<float>(atan2(static_cast<double>(y), static_cast<double>(x)));
}

}  // namespace rush::math
