// math.h: the scalar maths of every pointwise op, for float and double, on host and device.
//
// Host functions are ours (branch-free, so that g++ vectorises them); the device calls CUDA's own,
// except in *_exact.cu (RUSH_EXACT_MATH). What has no native form is composed here, once.
#pragma once

#if defined(__CUDACC_RTC__) && !defined(RUSH_EXACT_MATH)
#include "math_device.h"
#else
#include "math_special.h"
#endif

// Long functions, of which a kernel has one copy instead of one per element of a pack: NVRTC took half a
// minute for them.
#ifdef RUSH_DEVICE
#define RUSH_FN_CALLED inline __device__ __noinline__
#else
#define RUSH_FN_CALLED RUSH_FN
#endif

namespace rush::math {

template <class T>
inline constexpr T pi = T(0x1.921fb54442d18p+1);

// e^-|x| never overflows, and the small side keeps its denormals.
template <class T>
RUSH_FN T sigmoid(T x) {
  const T e = exp_below_one(-fabs(x));
  return (x >= T(0) ? T(1) : e) / (T(1) + e);  // nan flows through e
}

// x sigmoid(x); what would be denormal is 0.
template <class T>
RUSH_FN T silu(T x) {
  const T e = exp_negative(-fabs(x));
  return (x >= T(0) ? x : x * e) / (T(1) + e);
}

template <class T>
RUSH_FN T logit(T x) {
  const T d = x - T(0.5), rest = T(1) - x;  // near a half the quotient is near 1
  return fabs(d) < T(0.2) ? log1p((d + d) / rest) : log(x / rest);
}

template <class T>
RUSH_FN T logaddexp(T a, T b) {
  const T hi = a > b ? a : b, d = -fabs(a - b);
  // Equal infinities differ by nan; their sum is themselves.
  return a == b && isinf(a) ? a : (isnan(d) ? a + b : hi + log1p(exp(d)));
}
template <class T>
RUSH_FN T logaddexp2(T a, T b) {
  const T hi = a > b ? a : b, d = -fabs(a - b);
  return a == b && isinf(a) ? a : (isnan(d) ? a + b : hi + log1p(exp2(d)) * log2_e<T>);
}

template <class T>
RUSH_FN T xlogy(T x, T y) {
  const T r = x * log(y);
  return isnan(y) ? y : (x == T(0) ? T(0) : r);
}
template <class T>
RUSH_FN T xlog1py(T x, T y) {
  const T r = x * log1p(y);
  return isnan(y) ? y : (x == T(0) ? T(0) : r);
}
template <class T>
RUSH_FN T entr(T x) {
  const T r = -x * log(x);
  return isnan(x) ? x : (x > T(0) ? r : (x == T(0) ? T(0) : -limits<T>::inf));
}

// sin(pi x) / (pi x)
template <class T>
RUSH_FN T sinc(T x) {
  // The sine has period 2: the nearest integer goes first, exactly.
  const T n = round(x), tiny = x == T(0) ? T(0x1p-100) : T(0);  // sin(p) / p is 1 for the tiny p
  const T s = sin(fma(pi<T>, x - n, tiny)), p = fma(pi<T>, x, tiny);
  return (n == T(2) * round(T(0.5) * n) ? s : -s) / p;
}

// Python's %: the sign of the divisor.
template <class T>
RUSH_FN T remainder(T a, T b) {
  const T m = fmod(a, b);
  return m != T(0) && (m < T(0)) != (b < T(0)) ? m + b : m;
}

// Digamma: the recurrence carries x to 10 or more as one fraction, then the asymptotic series.
struct Recurrence {
  double p, q, y;
};
template <int steps>
RUSH_FN Recurrence digamma_recurrence(Recurrence r) {  // p/q + 1/y
  if constexpr (steps == 0) {
    return r;
  } else {
    const bool step = r.y < 10.0;
    const double p = fma(r.p, r.y, r.q), q = r.q * r.y, y = r.y + 1.0;
    return digamma_recurrence<steps - 1>({step ? p : r.p, step ? q : r.q, step ? y : r.y});
  }
}
RUSH_FN double digamma_positive(double x) {
  const Recurrence r = digamma_recurrence<10>({0.0, 1.0, x});
  const double p = r.p, q = r.q, y = r.y;
  const double w = 1.0 / y, z = w * w;
  const double s = z * poly(z, 1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132,
                            -691.0 / 32760, 1.0 / 12, -3617.0 / 8160);
  // Around its zero by Taylor's series there.
  const double d = (x - 0x1.762d86356be3fp+0) - 0x1.b86a722197829p-54;
  const double near =
      d * poly(d, 0x1.ef72bc8ee38acp-1, -0x1.c563b54aa1a35p-2, 0x1.08b4294d50381p-2,
               -0x1.4fc1317257da8p-3, 0x1.b9a5b6370f3abp-4, -0x1.27baba261cc2cp-4,
               0x1.8fce02b239ca7p-5, -0x1.0fa7ec36a7d8fp-5, 0x1.723d6807edcc0p-6,
               -0x1.f970508e1b6a2p-7, 0x1.5955caaa962f3p-7, -0x1.d828079282eb8p-8,
               0x1.42e1acf81d8dcp-8, -0x1.b9afc7cee8a14p-9, 0x1.2e23345f79aafp-9,
               -0x1.9d626f71d1f7ap-10, 0x1.1acebbd761089p-10, -0x1.82f6345c65b35p-11,
               0x1.08bdae1a261d4p-11, -0x1.6a3fddea11304p-12, 0x1.efacab6fb8985p-13);
  return fabs(d) < 0.2 ? near : (log(y) - 0.5 * w) - s - p / q;
}
RUSH_FN double digamma(double x) {
  const double g = digamma_positive(x < 0.0 ? 1.0 - x : x);
  const double f = x - round(x);  // tan has period pi: reduce exactly first
  const double t = g - pi<double> / tan(pi<double> * f);
  const double y = x < 0.0 ? (f == 0.0 ? limits<double>::nan : t) : g;
  const double z = isinf(x) ? (x > 0.0 ? x : limits<double>::nan) : y;
  return x == 0.0 ? copysign(limits<double>::inf, -x) : z;
}
RUSH_FN float digamma(float x) { return static_cast<float>(digamma(static_cast<double>(x))); }

// The sum of (x + k)^-s for x > 0, s > 1: terms, then Euler and Maclaurin's rest.
RUSH_FN double zeta_positive(double s, double x) {
  double sum = 0.0;
  if (x > 1e18 * s) return pow(x, 1.0 - s) / (s - 1.0);  // the integral alone
  const double first = pow(x, -s);
  if (first == 0.0 || isinf(first)) return first;
  for (int k = 0; k < 4096 && x < 10.0 + s; ++k, x += 1.0) {
    const double term = pow(x, -s);
    sum += term;
    if (term < 1e-18 * sum) return sum;
  }
  const double p = pow(x, -s), w = 1.0 / (x * x);
  double rest = p * (x / (s - 1.0) + 0.5), term = p * s / x;
  // B2j / (2j)!
  const double b[] = {1.0 / 12,          -1.0 / 720,
                      1.0 / 30240,       -1.0 / 1209600,
                      1.0 / 47900160,    -691.0 / 1307674368000,
                      1.0 / 74724249600, -3617.0 / 10670622842880000};
  for (int j = 0; j < 8; ++j) {
    const double more = b[j] * term;
    rest += more;
    if (fabs(more) < 1e-18 * fabs(sum + rest)) break;
    term *= (s + 2 * j + 1) * (s + 2 * j + 2) * w;
  }
  return sum + rest;
}
// Hurwitz's zeta function. Left of zero only integers s have a real value: there the terms mirror
// those on the right.
RUSH_FN_CALLED double zeta(double s, double q) {
  if (isnan(s) || isnan(q)) return limits<double>::nan;
  if (s == 1.0) return limits<double>::inf;
  if (s < 1.0) return limits<double>::nan;
  if (q > 0.0)
    return isinf(s) ? (q < 1.0 ? limits<double>::inf : q == 1.0 ? 1.0 : 0.0) : zeta_positive(s, q);
  if (q == floor(q)) return limits<double>::inf;
  if (s != floor(s)) return limits<double>::nan;
  const double up = q - floor(q), down = ceil(q) - q;  // the nearest terms on both sides of zero
  const double left = zeta_positive(s, down) - zeta_positive(s, 1.0 - q);
  return (fmod(s, 2.0) == 0.0 ? left : -left) + zeta_positive(s, up);
}
// Digamma's derivative, which its gradient asks for: no powers, so far cheaper than zeta. Up to 10
// by the recurrence, then the asymptotic series; left of zero by reflection.
RUSH_FN double trigamma_positive(double x) {
  double sum = 0.0;
  for (; x < 10.0; x += 1.0) sum += 1.0 / (x * x);
  const double r = 1.0 / x, w = r * r;
  // The Bernoulli numbers B2 to B16, the last one first.
  const double b[] = {-3617.0 / 510, 7.0 / 6,  -691.0 / 2730, 5.0 / 66,
                      -1.0 / 30,     1.0 / 42, -1.0 / 30,     1.0 / 6};
  double series = 0.0;
  for (int k = 0; k < 8; ++k) series = series * w + b[k];
  return sum + r + 0.5 * w + series * w * r;
}
RUSH_FN double trigamma(double x) {
  const double right = trigamma_positive(x < 0.0 ? 1.0 - x : x);
  const double s = sin(pi<double> * (x - round(x)));
  return x < 0.0 ? pi<double> * pi<double> / (s * s) - right : right;
}
// The n-th derivative of digamma, n > 0.
RUSH_FN_CALLED double polygamma(double n, double x) {
  if (isnan(x)) return x;
  if (isinf(x)) return x > 0.0 ? 0.0 : limits<double>::nan;
  if (n == 1.0) return trigamma(x);
  double factorial = 1.0;
  for (double k = 2.0; k <= n && n <= 30.0; k += 1.0) factorial *= k;
  if (n > 30.0) factorial = exp(lgamma(n + 1.0));
  const double z = zeta(n + 1.0, x);
  return fmod(n, 2.0) == 0.0 ? -factorial * z : factorial * z;
}

// The modified Bessel function of order 1: the power series, all terms of one sign; from 30 up the
// asymptotic one.
RUSH_FN double i1(double x) {
  const double a = fabs(x), u = 0.25 * a * a;
  if (!(a < 30.0)) {
    double sum = 1.0, term = 1.0;
    for (int k = 1; k < 17; ++k) {
      term *= (4.0 - (2.0 * k - 1.0) * (2.0 * k - 1.0)) / (8.0 * k * a) * -1.0;
      sum += term;
    }
    const double h = exp(0.5 * a);
    return isinf(x) ? x : copysign(sum / sqrt(2.0 * pi<double> * a) * h * h, x);
  }
  double sum = 1.0;
  for (int k = 80; k > 0; --k) sum = fma(u / (double(k) * (k + 1.0)), sum, 1.0);
  return 0.5 * x * sum;
}
RUSH_FN float i1(float x) { return static_cast<float>(i1(static_cast<double>(x))); }

// Denormals are scaled up first.
template <class T>
RUSH_FN T frexp_exponent(T x) {
  constexpr bool f = is_same<T, float>;
  constexpr T up = f ? T(0x1p25) : T(0x1p54), smallest = f ? T(0x1p-126) : T(0x1p-1022);
  const bool tiny = fabs(x) < smallest;
  const T y = tiny ? x * up : x;
  int e;
  if constexpr (f)
    e = static_cast<int>((bit_cast<u32>(y) >> 23) & 0xff) - 126;
  else
    e = static_cast<int>((bit_cast<u64>(y) >> 52) & 0x7ff) - 1022;
  return x == T(0) || !isfinite(x) ? T(0) : T(tiny ? e - (f ? 25 : 54) : e);
}
template <class T>
RUSH_FN T frexp_mantissa(T x) {
  constexpr bool f = is_same<T, float>;
  constexpr T up = f ? T(0x1p25) : T(0x1p54), smallest = f ? T(0x1p-126) : T(0x1p-1022);
  const T y = fabs(x) < smallest ? x * up : x;
  T m;
  if constexpr (f)
    m = bit_cast<float>((bit_cast<u32>(y) & 0x807fffffu) | 0x3f000000u);
  else
    m = bit_cast<double>((bit_cast<u64>(y) & 0x800fffffffffffffull) | 0x3fe0000000000000ull);
  return x == T(0) || !isfinite(x) ? x : m;
}

// ---- the random generator's own log, sine and cosine ----
//
// Note [Same normals everywhere]
// Random normals must agree bit for bit between CPU and GPU, so these use fused multiply-adds by
// name and lone multiplications or additions that no compiler may contract with anything.

// log(u) for u in (0, 1], normal.
RUSH_FN float philox_log(float u) {
  const u32 i = bit_cast<u32>(u) + (127u << 23) - 0x3f3504f3u;
  const float f = bit_cast<float>((i & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
  const float e = bit_cast<float>((i >> 23) | 0x4b000000u) - (0x1p23f + 127.0f);
  float p = 0x1.1d8ea6p-4f;
  p = fma_exact(p, f, -0x1.d635bcp-4f);
  p = fma_exact(p, f, 0x1.dea282p-4f);
  p = fma_exact(p, f, -0x1.fcf4c6p-4f);
  p = fma_exact(p, f, 0x1.23d21ap-3f);
  p = fma_exact(p, f, -0x1.555b4ap-3f);
  p = fma_exact(p, f, 0x1.999d5ap-3f);
  p = fma_exact(p, f, -0x1.fffffcp-3f);
  p = fma_exact(p, f, 0x1.555554p-2f);
  p = fma_exact(p, f, -0.5f);
  p = fma_exact(p, f, 1.0f);
  p = fma_exact(p, f, 0.0f);  // f + f^2 (-1/2 + f p)
  p = fma_exact(e, 0x1.7f7d1cp-20f, p);
  return fma_exact(e, 0x1.62e4p-1f, p);
}

struct SinCos {
  float sin, cos;
};
// sin and cos of 2 pi u, u in [0, 1].
RUSH_FN SinCos philox_sincos(float u) {
  const float q = fma_exact(u, 4.0f, 0x1.8p23f) - 0x1.8p23f;  // quarter turns
  const u32 n = bit_cast<u32>(q + 0x1.8p23f);
  const float r = fma_exact(u, 4.0f, -q);  // in [-1/2, 1/2] quarter turns, exact
  const float x = r * 0x1.921fb6p+0f, z = x * x;
  float s = 0x1.6da8ecp-19f;
  s = fma_exact(s, z, -0x1.a01366p-13f);
  s = fma_exact(s, z, 0x1.11110ep-7f);
  s = fma_exact(s, z, -0x1.555556p-3f);
  s = fma_exact(s * z, x, x);
  float c = 0x1.9bc2d4p-16f;
  c = fma_exact(c, z, -0x1.6c12aap-10f);
  c = fma_exact(c, z, 0x1.555554p-5f);
  c = fma_exact(c, z, -0.5f);
  c = fma_exact(c, z, 1.0f);
  const float a = (n & 1) != 0 ? c : s, b = (n & 1) != 0 ? s : c;
  return {bit_cast<float>(bit_cast<u32>(a) ^ ((n & 2) << 30)),
          bit_cast<float>(bit_cast<u32>(b) ^ (((n + 1) & 2) << 30))};
}

}  // namespace rush::math
