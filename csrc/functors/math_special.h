// math_special.h (host): erf and its kin, gamma's logarithm, Bessel i0, hypot, fmod.
#pragma once

#include "math_exp.h"
#include "math_trig.h"

namespace rush::math {

// ---- error function ----

// erf(x) / x - 1 in z = x^2, |x| <= 1. Smaller than erf(x) / x, so its rounding counts less.
RUSH_FN float erf_small(float z) {
  return poly(z, 0x1.06eba8p-3f, -0x1.812746p-2f, 0x1.ce2f08p-4f, -0x1.b829c8p-6f, 0x1.562a60p-8f,
              -0x1.bccf66p-11f, 0x1.d88750p-14f, -0x1.445f48p-17f);
}
RUSH_FN double erf_small(double z) {
  return poly(z, 0x1.06eba8214db69p-3, -0x1.812746b0379e6p-2, 0x1.ce2f21a042b30p-4,
              -0x1.b82ce31284e00p-6, 0x1.565bcd0dbaa38p-8, -0x1.c02db3dac435fp-11,
              0x1.f9a321d5b8e1dp-14, -0x1.f4d1e3183f78ep-17, 0x1.b9df224ca4a27p-20,
              -0x1.5f1ecb6f06afdp-23, 0x1.f7b4bf3b0c7bfp-27, -0x1.389d4f262cbc8p-30,
              0x1.05ffd737c6602p-34);
}
// (1 + 2x) e^(x^2) erfc(x), for all x >= 0 that matter, in t = (x - k) / (x + k).
RUSH_FN float erfc_scaled_at(float t) {
  return poly(t, 0x1.46e80ep+0f, -0x1.7bf5e8p-4f, -0x1.5407cap-3f, 0x1.4ff9e4p-3f, -0x1.bc2892p-5f,
              -0x1.071ca2p-7f, 0x1.1d86a2p-7f, 0x1.47b620p-10f, -0x1.776da8p-10f, -0x1.a586f8p-12f,
              0x1.78b5e8p-13f, 0x1.639072p-14f);
}
RUSH_FN double erfc_scaled_at(double t) {
  return poly(
      t, 0x1.3ba5916e9fd7fp+0, -0x1.1df1ad154a28fp-3, 0x1.f7f5df66fd7e6p-7, 0x1.16ecefcfa5400p-4,
      -0x1.9ddb23c3e924bp-4, 0x1.7fee004e113a0p-4, -0x1.0fb06dfe46db3p-4, 0x1.3079edf6ae2ebp-5,
      -0x1.09623885955c8p-6, 0x1.49c6727714f22p-8, -0x1.8d4a996717f16p-11, -0x1.a1df1879570cbp-13,
      0x1.3be033841dfc4p-13, -0x1.995b13f6b0a3fp-16, -0x1.7882d18e29e35p-17, 0x1.7f3e45c1e5061p-18,
      0x1.3926a52c331a6p-22, -0x1.bc665b6377870p-21, 0x1.4adcd53cbbc96p-24, 0x1.e689355383b88p-24,
      -0x1.483e5f2f13f5cp-26, -0x1.1d56405fb00c0p-26, 0x1.cfaa94405e761p-30, 0x1.210c970eb46d4p-29,
      0x1.401609bf915e2p-32);
}
RUSH_FN float erfc_scaled(float x) { return erfc_scaled_at((x - 2.0f) / (x + 2.0f)); }
RUSH_FN double erfc_scaled(double x) { return erfc_scaled_at((x - 4.0) / (x + 4.0)); }
template <class T>
RUSH_FN T erfc_positive(T a0) {  // a0 >= 0 or nan
  constexpr T top = is_same<T, float> ? T(11) : T(28);
  const T a = a0 > top ? top : a0;
  const Pair<T> q = two_prod(a, a);
  const T e = exp_below_one(-q.hi);  // the square's rounding error re-enters to first order
  return fma(-q.lo, e, e) * (erfc_scaled(a) / fma(T(2), a, T(1)));
}
// The standard normal distribution up to x, and its density there; one exponential for both. Unlike
// erfc it needs no formula of its own around zero, where it is far from zero.
template <class T>
struct Normal {
  T below, density;
};
template <class T>
RUSH_FN Normal<T> normal(T x) {
  constexpr T top = is_same<T, float> ? T(11) : T(28), k = is_same<T, float> ? T(2) : T(4);
  const T a0 = fabs(x) * T(0.70710678118654752440), a = a0 > top ? top : a0;
  const Pair<T> q = two_prod(a, a);
  const T rough = exp_negative(-q.hi), e = fma(-q.lo, rough, rough);
  // erfc_scaled((a - k) / (a + k)) / (2a + 1), by one division for both.
  const T u = fma(T(2), a, T(1)), v = a + k, by = T(1) / (u * v);
  const T tail = (T(0.5) * e) * (erfc_scaled_at((a - k) * (u * by)) * (v * by));
  return {x < T(0) ? tail : T(1) - tail, e * T(0.39894228040143267794)};  // 1 / sqrt(2 pi)
}
template <class T>
RUSH_FN T erf_any(T x) {
  const T a = fabs(x);
  const T far = T(1) - erfc_positive(a);
  return a < T(0.75) ? fma(x, erf_small(x * x), x) : copysign(far, x);
}
template <class T>
RUSH_FN T erfc_any(T x) {
  const T a = fabs(x);
  const T y = erfc_positive(a);
  const T near = T(1) - fma(x, erf_small(x * x), x);
  const T far = x < T(0) ? T(2) - y : y;
  return a < T(0.25) ? near : far;
}
RUSH_FN float erf(float x) { return erf_any(x); }
RUSH_FN double erf(double x) { return erf_any(x); }
RUSH_FN float erfc(float x) { return erfc_any(x); }
RUSH_FN double erfc(double x) { return erfc_any(x); }

// erfinv(x) / x: a polynomial in w = -log(1 - x^2), or in its root further out.
template <class T>
RUSH_FN T erfinv_guess(T w) {
  const T u = w - T(2.5), v = sqrt(w) - T(4);
  const T near = poly(u, T(0x1.805c5ep+0), T(0x1.f91e8ap-3), T(-0x1.11c506p-8), T(-0x1.48650cp-10),
                      T(0x1.c9e970p-13), T(-0x1.4db186p-18), T(-0x1.d0eda0p-19), T(0x1.f6a6f6p-22),
                      T(0x1.90e8acp-26), T(-0x1.32e60cp-27));
  const T far = poly(v, T(0x1.eb7e0a69ddb3fp+1), T(0x1.026e21a27277ap+0), T(0x1.4958d78d24138p-10),
                     T(-0x1.c64197619cb6fp-11), T(0x1.5da28362b3764p-12), T(-0x1.065624793d509p-13),
                     T(0x1.49cf016e04608p-15), T(-0x1.878cc7bc61cffp-16), T(0x1.d881d4a679023p-16),
                     T(-0x1.f1c8f7fd5edc0p-17), T(0x1.b1638071622cfp-21), T(0x1.95584999c3bdcp-20),
                     T(-0x1.60ab7511e168ap-22));
  return w < T(5) ? near : far;
}
RUSH_FN double erfinv(double x) {
  const double a = fabs(x), c = 1.0 - a;
  const double y = a * erfinv_guess(-log1p(-a * a));
  // One Halley step (cubic) on erf(y) = a, or where a nears 1 on erfc(y) = 1 - a, which is exact.
  const double err = a > 0.5 ? c - erfc_positive(y) : erf_any(y) - a;
  const double d = err / (0x1.20dd750429b6dp+0 * exp_any(-y * y));  // 2 / sqrt(pi)
  const double z = y - d / fma(y, d, 1.0);
  const double r = a < 0x1p-500 ? a * 0x1.c5bf891b4ef6ap-1 : z;  // sqrt(pi) / 2
  return copysign(a < 1.0 ? r : (a == 1.0 ? limits<double>::inf : limits<double>::nan), x);
}
RUSH_FN float erfinv(float x) {
  const double a = fabs(static_cast<double>(x));
  const double y = a * erfinv_guess(-log((1.0 - a) * (1.0 + a)));
  const double err = a - erf_any(y);
  const double z = fma(err, 0x1.c5bf891b4ef6ap-1 * exp_any(y * y), y);  // Newton
  return copysign(
      static_cast<float>(a < 1.0 ? z : (a == 1.0 ? limits<double>::inf : limits<double>::nan)), x);
}

// ---- gamma ----

// The product of d + k for first <= k < n. Recursion, not a loop: g++ vectorises no nest of loops.
template <int first, int end>
RUSH_FN double rising(double d, double n) {
  if constexpr (first == end) {
    return 1.0;
  } else {
    const double factor = n > first + 0.5 ? d + first : 1.0;
    return factor * rising<first + 1, end>(d, n);
  }
}

// log of gamma for x > 0. From 8 up Stirling's series; below, x is carried to 2 + d, |d| <= 1/2,
// by the recurrence, and the polynomial is d P(d), which keeps the zeros at 1 and 2 exact.
RUSH_FN double lgamma_positive(double x) {
  const bool big = x >= 8.0;
  // Small x = n + d: the recurrence multiplies from 2 + d up to x, or divides down to it.
  const double xs = big ? 2.0 : x;
  const double n = round_small(xs), d = xs - n;
  const double up = rising<2, 8>(d, n), down = xs * (1.0 + xs);
  const double product = n < 0.5 ? down : up;
  const double l = log(big ? x : product), l1 = log1p(d);
  const double p = d * poly(d, 0x1.b0ee6072093cep-2, 0x1.4a34cc4a60fa6p-2, -0x1.13e001a557606p-4,
                            0x1.51322ac7d849cp-6, -0x1.e404fc218f621p-8, 0x1.7add6eadb29e7p-9,
                            -0x1.38ac5c2bf4e8fp-10, 0x1.0b36af88c54c6p-11, -0x1.d3fd4c7bb35c4p-13,
                            0x1.a127af39b9e14p-14, -0x1.78de5a32b2bbbp-15, 0x1.580e27de44e2fp-16,
                            -0x1.3cbceb6cb84a1p-17, 0x1.258c656c630f2p-18, -0x1.11a827b0f4d96p-19,
                            0x1.0149229a00a57p-20, -0x1.e41543ee571cap-22, 0x1.b17698056edaap-23,
                            -0x1.9a55364f23370p-24, 0x1.1657c7c2b8fe2p-24, -0x1.096ae431929d3p-25);
  // lgamma(1 + d) = lgamma(2 + d) - log(1 + d), which is log1p's case
  const double shift = n < 0.5 ? -l : l;
  const double near = p + (n == 1.0 ? -l1 : shift);
  const double xb = big ? x : 8.0, w = 1.0 / xb, z = w * w;
  const double series =
      w * poly(z, 0x1.5555555555555p-4, -0x1.6c16c16c16c17p-9, 0x1.a01a01a01a01ap-11,
               -0x1.3813813813814p-11, 0x1.b951e2b18ff23p-11, -0x1.f6ab0d9993c7dp-10,
               0x1.a41a41a41a41ap-8, -0x1.e4286cb0f5398p-6, 0x1.6fe96381e0680p-3);
  const double far = fma(xb - 0.5, l - 1.0, 0x1.acfe390c97d69p-2 + series);  // (ln 2pi - 1) / 2
  return big ? far : near;
}
// log|sin(pi x)| needs x mod 1 only; the reduction is exact.
RUSH_FN double sin_pi_abs(double x) {
  const double f = fabs(x - round(x));
  const double pi = 0x1.921fb54442d18p+1;
  return f > 0.25 ? cos_poly(pi * (0.5 - f), 0.0) : sin_poly(pi * f, 0.0);
}
RUSH_FN double lgamma(double x) {
  const double a = fabs(x);
  const double g = lgamma_positive(a);
  // lgamma(-a) = log(pi / (a |sin(pi a)|)) - lgamma(a), infinite at the negative integers
  const double mirror = log(0x1.921fb54442d18p+1 / (a * sin_pi_abs(a))) - g;
  const double y = (x < 0.0) & (a > 0x1p-60) ? mirror : g;
  return (a == 0.0) | (a == limits<double>::inf) ? limits<double>::inf : y;
}
RUSH_FN float lgamma(float x) { return static_cast<float>(lgamma(static_cast<double>(x))); }

// ---- Bessel i0 ----

// Sum of u^k / k!^2, all terms positive: 1 + u (1 + u/4 (1 + u/9 (...))).
template <int k>
RUSH_FN double i0_series(double u) {
  if constexpr (k > 30)
    return 1.0;
  else
    return fma(u * (1.0 / (double(k) * double(k))), i0_series<k + 1>(u), 1.0);
}
RUSH_FN double i0(double x) {
  const double a = fabs(x), u = 0.25 * a * a;
  const double small = i0_series<1>(a < 8.0 ? u : 0.0);
  const double t = 8.0 / (a < 8.0 ? 8.0 : a);
  const double p = poly(
      t, 0x1.9884533d43651p-2, 0x1.9884533d40a8ep-8, 0x1.cb94ddc31ba4ap-12, 0x1.debacf1b6464cp-15,
      0x1.6eae1aafeaf11p-17, 0x1.651f8f92497afp-19, 0x1.4cbd6f48fed1cp-19, -0x1.218a2674e2274p-16,
      0x1.29819c8ffc0c5p-13, -0x1.c5256f34b964fp-11, 0x1.0a899041f21f7p-8, -0x1.ea079a5e4ee2dp-7,
      0x1.62eef6ad8ad3dp-5, -0x1.96c2b19573e17p-4, 0x1.70d864ffb9c11p-3, -0x1.07a56ff5d3593p-2,
      0x1.26a892da8355cp-2, -0x1.fbcec52c45edep-3, 0x1.4a0a932a6e20ap-3, -0x1.3879610f0d298p-4,
      0x1.964cc91e1bd5dp-6, -0x1.443096d389c9bp-8, 0x1.de98a14e37413p-12);
  const double h = exp_any(0.5 * a);
  const double large = a == limits<double>::inf ? a : (p / sqrt(a)) * h * h;
  return a < 8.0 ? small : large;
}
RUSH_FN float i0(float x) { return static_cast<float>(i0(static_cast<double>(x))); }

// ---- hypot, fmod ----

RUSH_FN float hypot(float x, float y) {
  const double a = x, b = y;
  const double r = sqrt(a * a + b * b);  // squares of floats are exact in double and never overflow
  return static_cast<float>(isinf(a) | isinf(b) ? limits<double>::inf : r);
}
RUSH_FN double hypot(double x, double y) {
  const double a = fabs(x), b = fabs(y), big = max_of(a, b);
  const double scale = big > 0x1p500 ? 0x1p-600 : (big < 0x1p-500 ? 0x1p600 : 1.0);
  const double back = big > 0x1p500 ? 0x1p600 : (big < 0x1p-500 ? 0x1p-600 : 1.0);
  const double u = a * scale, v = b * scale;
  const double r = sqrt(fma(u, u, v * v)) * back;
  return isinf(x) | isinf(y) ? limits<double>::inf : r;
}

// A quotient below 2^29 (2^52) needs one step; a larger one goes to the C library, by a branch:
// no fixed number of steps serves all, so a loop over fmod does not vectorise.
RUSH_FN float fmod(float x, float y) {
  const double a = fabs(static_cast<double>(x)), b = fabs(static_cast<double>(y));
  const double q = trunc(a / b);
  if (__builtin_expect(!(q < 0x1p29 && b < limits<double>::inf), 0)) return __builtin_fmodf(x, y);
  const double r = a - q * b;  // exact: 29 + 24 bits
  return copysign(static_cast<float>(r < 0.0 ? r + b : r), x);
}
RUSH_FN double fmod(double x, double y) {
  const double a = fabs(x), b = fabs(y);
  const double q = trunc(a / b);
  if (__builtin_expect(!(has_fma && q < 0x1p52 && b < limits<double>::inf && b > 0x1p-900), 0)) {
    return __builtin_fmod(x, y);
  }
  const double r = fma(-q, b, a);  // one rounding, of an exactly representable value
  return copysign(r < 0.0 ? r + b : r, x);
}

}  // namespace rush::math
