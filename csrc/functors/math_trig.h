// math_trig.h (host): sine, cosine, tangent and their inverses, branch-free and right for every
// argument, however large.
//
// Note [Range reduction]
// We want x 2/pi mod 4 to full relative precision. x is scaled by a power of two into a range where
// a constant C = (2/pi 2^s) mod 4, held in three parts, gives x C mod 4 = (2^-s x)(2^s 2/pi) mod 4:
// whole turns are dropped from the constant before the product, so nothing large is ever formed.
// - float: s is one of three values picked by selects; the products of the 24-bit x with the two
//   28-bit leading parts are exact in double.
// - double: s is a multiple of 32, the parts come from a table of 32 rows (a gather).
#pragma once

#include "math_basic.h"

namespace rush::math {

inline constexpr double two_over_pi_1[32] = {
    0x1.45f306dc9c883p-1, -0x1.b1bbead603d8bp+0, 0x1.fc2757d1f534ep+0, 0x1.f534ddc0db629p+0,
    0x1.b6c52b3278872p-1, 0x1.3c439041fe516p+0, 0x1.fe5163abdebbcp+0, -0x1.0a21d4f246dc9p-3,
    0x1.b7246e3a424ddp+0, -0x1.bdb22d1ff9b6dp+0, 0x1.924bba8274648p-6, -0x1.f62e6de301e21p+0,
    0x1.fc3bd63962535p-1, 0x1.62534e7dd1047p-1, -0x1.177dca0ad144cp+0, 0x1.2ebb4484e99c7p+0,
    0x1.d338e04d68bf0p-1, -0x1.4ba081bec66e3p+0, 0x1.3991d63983534p+0, 0x1.835339f49c846p+0,
    0x1.3908bf177bf25p-1, -0x1.081b5f13801dap-2, -0x1.c00ed00043f4dp-1, -0x1.0fd33f8086877p-3,
    -0x1.0d0ee74a5f593p-4, -0x1.4beb25c125930p-1, -0x1.25930261b069fp-1, -0x1.b069ec9161738p-1,
    -0x1.61738132c3403p-1, -0x1.61a015d28ad84p+0, 0x1.7527bac7ebe5fp+0, -0x1.41a0e84c2f8c6p-4,
};
inline constexpr double two_over_pi_2[32] = {
    -0x1.6b01ec5417056p-55, 0x1.f47d4d377036ep-54, -0x1.1f924eb53361ep-55, 0x1.664f10e4107f9p-54,
    0x1.07f9458eaf7afp-58, 0x1.d5ef5de2b0db9p-55, 0x1.586dc91b8e909p-54, 0x1.d2126e9700325p-59,
    0x1.700324977504fp-55, -0x1.15f62e6de301ep-56, 0x1.cfe1deb1cb12ap-60, -0x1.38d3b5963045ep-54,
    -0x1.822efb9415a29p-57, -0x1.0568a25dbd8b3p-55, 0x1.213a671c09ad1p-54, 0x1.35a2fbf209cc9p-59,
    -0x1.bec66e29c67cbp-56, 0x1.8e60d4ce7d272p-54, -0x1.82d8dee81d108p-54, -0x1.d1081b5f13802p-58,
    0x1.d8ffc4bffef03p-59, -0x1.0fd33f8086877p-67, 0x1.fde5e2316b415p-61, -0x1.d297d64b824b2p-58,
    0x1.f6d367ecf27cbp-60, -0x1.30d834f648b0cp-56, 0x1.b74f463f669e6p-56, -0x1.32c3402ba515bp-57,
    0x1.16ba93dd63f5fp-55, -0x1.4e050683a130cp-54, 0x1.7b3d0739f78a5p-56, -0x1.0eb5ada2b2809p-61,
};
inline constexpr double two_over_pi_3[32] = {
    -0x1.6447e493ad4cep-109, -0x1.d6a66c3bc6fbep-108, 0x1.c820ff28b1d5fp-111, 0x1.163abdebbc562p-108,
    -0x1.d4f246dc8e2dfp-115, 0x1.1b8e909374b80p-110, 0x1.ba5c00c925dd4p-109, -0x1.a22bec5cdbc60p-113,
    -0x1.cdbc603c429c7p-109, -0x1.0a71a76b2c609p-111, -0x1.63045df7282b4p-114, 0x1.1afa975da2427p-111,
    0x1.a24274ce38136p-111, -0x1.c7eca5d040df6p-111, 0x1.f7e413991d63ap-108, -0x1.4e33e566305b2p-115,
    0x1.9cfa4e422fc5ep-111, 0x1.17e2ef7e4a0ecp-110, -0x1.b5f13801da001p-110, 0x1.2fffbc0b301fep-113,
    -0x1.9fc04343b9d29p-114, -0x1.d297d64b824b2p-122, -0x1.2e092c98130d8p-116, -0x1.8130d834f648bp-112,
    0x1.36e9e8c7ecd3dp-117, 0x1.8fd9a797fa8b6p-110, -0x1.5d28ad8453814p-116, -0x1.14e050683a131p-114,
    0x1.7c5ecf41ce7dep-110, 0x1.ce7de294a4baap-110, 0x1.497535fdafd89p-111, -0x1.0277039517bd5p-115,
};

// x = (quadrant + 4 k) pi/2 + hi + lo with |hi| <= pi/4 and a bit.
template <class T> struct Reduced {
  T hi, lo;
  bits_of<T> quadrant;
};

RUSH_FN Reduced<double> reduce_float(float x0) {
  const double x = static_cast<double>(x0), a = fabs(x);
  const bool mid = a >= 0x1p43, far = a >= 0x1p86;
  const double scale = far ? 0x1p-86 : (mid ? 0x1p-43 : 1.0);
  const double c1 = far ? 0x1.f47d4d4p+0 : (mid ? -0x1.df56bp+0 : 0x1.45f307p-1);
  const double c2 = far ? -0x1.11f925p-29 : (mid ? -0x1.ec5417p-28 : -0x1.1b1bbecp-28);
  const double c3 = far ? 0x1.4acc9e21c8210p-57
                        : (mid ? -0x1.596447e493ad5p-58 : 0x1.29fc2757d1f53p-56);
  constexpr double magic = 0x1.8p52;
  const double y = x * scale, p1 = y * c1;
  const double t1 = p1 + magic, f1 = p1 - (t1 - magic);
  const double f2 = fma(y, c2, f1);
  const double t2 = f2 + magic, f3 = fma(y, c3, f2 - (t2 - magic));
  return {f3 * 0x1.921fb54442d18p+0, 0.0, to_bits(t1) + to_bits(t2)};
}

RUSH_FN Reduced<double> reduce(double x) {
  const u64 e = (to_bits(x) >> 52) & 0x7ff;
  // Row 0 serves up to 2^52 (biased exponent 1075); an infinite x ends as nan by 0 * inf.
  const u64 row = e < 1075 ? 0 : ((e - 1043) >> 5) & 31;
  const double y = x * from_bits<double>((1023 - 32 * row) << 52);
  const double c1 = two_over_pi_1[row], c2 = two_over_pi_2[row], c3 = two_over_pi_3[row];
  const Pair<double> p = two_prod(y, c1), q = two_prod(y, c2);
  const double f = p.hi - 4.0 * round(p.hi * 0.25);  // |p.hi| < 2^54: a multiple of 4 leaves exactly
  const Pair<double> a = two_sum(f, p.lo), b = two_sum(a.hi, q.hi);
  const double low = (a.lo + b.lo) + fma(y, c3, q.lo);
  const double t = b.hi + 0x1.8p52;
  const Pair<double> r = two_sum(b.hi - (t - 0x1.8p52), low);
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
template <u32 shift> RUSH_FN float sin_shifted(float x) {
  const Reduced<double> d = reduce_float(x);
  const float r = static_cast<float>(d.hi);
  const u32 q = static_cast<u32>(d.quadrant) + shift;
  const float y = (q & 1) != 0 ? cos_poly(r) : sin_poly(r);
  const float z = from_bits<float>(to_bits(y) ^ ((q & 2) << 30));
  if constexpr (shift == 0) return x == 0.0f ? x : z;
  return z;
}
template <u32 shift> RUSH_FN double sin_shifted(double x) {
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
template <class T> inline constexpr T pi_half = T(0x1.921fb54442d18p+0);
template <class T> inline constexpr T pi_half_lo =
    is_same<T, float> ? T(-0x1.777a5cp-25f) : T(0x1.1a62633145c07p-54);

// Above 1/2: asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)).
template <class T> RUSH_FN T asin_any(T x) {
  const T a = fabs(x);
  const bool big = a > T(0.5);
  const T z = big ? T(0.5) * (T(1) - a) : a * a;
  const T t = big ? sqrt(z) : a;
  const T y = fma(t * z, asin_tail(z), t);
  const T w = pi_half<T> - (T(2) * y - pi_half_lo<T>);
  return copysign(big ? w : y, x);
}
template <class T> RUSH_FN T acos_any(T x) {
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
  return poly(z, -0x1.555554p-2f, 0x1.99972ep-3f, -0x1.241fe6p-3f, 0x1.b80990p-4f,
              -0x1.082f6cp-4f);
}
RUSH_FN double atan_tail(double z) {
  return poly(z, -0x1.5555555555555p-2, 0x1.999999999933dp-3, -0x1.24924924355d5p-3,
              0x1.c71c7184c32bep-4, -0x1.745d0b153ff8fp-4, 0x1.3b126143b5a86p-4,
              -0x1.10fa5ee9a9803p-4, 0x1.dfe49b2900fe1p-5, -0x1.a090d1949adadp-5,
              0x1.41495cee8f872p-5, -0x1.39f38ad1c4273p-6);
}
template <class T> RUSH_FN T atan_any(T x) {
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
  const bool both_inf = a0 == limits<double>::inf && b0 == limits<double>::inf;
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
  const double sign = swap != left ? -1.0 : 1.0;
  const double c0 = middle ? 1.0 : 0.0;
  const double c = fma(sign, c0, swap ? 2.0 : (left ? 4.0 : 0.0));
  const double r = fma(c, quarter, fma(sign, t, fma(c, quarter_lo, sign * tail)));
  const double s = isnan(x) || isnan(y) ? x + y : r;
  return copysign(s, y);
}
RUSH_FN float atan2(float y, float x) {
  return static_cast<float>(atan2(static_cast<double>(y), static_cast<double>(x)));
}

}  // namespace rush::math
