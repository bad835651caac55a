// math_gamma.h: the incomplete gamma functions and the normal distribution's tails and
// quantiles. In double; float goes through it.
#pragma once

#include "math.h"

namespace rush::math {

// ---- the normal distribution ----

// e^(x^2) erfc(x)
RUSH_FN double erfcx(double x) {
#ifdef __CUDACC_RTC__
  return ::erfcx(x);
#else
  const double a = fabs(x);
  double y;
  if (a < 26.0) {
    y = erfc_scaled(a) / fma(2.0, a, 1.0);
  } else {
    const double u = 1.0 / (a * a);
    y = poly(u, 1.0, -0.5, 0.75, -1.875, 6.5625, -29.53125, 162.421875) /
        (a * 0x1.c5bf891b4ef6bp+0);  // sqrt(pi)
  }
  if (!(x < 0.0)) return isnan(x) ? x : y;
  const Pair<double> q = two_prod(a, a);
  const double e = exp(q.hi);
  return (isinf(e) ? e : 2.0 * fma(q.lo, e, e)) - y;
#endif
}

// e^(-x^2 / 2), with the square's rounding error.
RUSH_FN double gauss(double x) {
  if (fabs(x) > 60.0) return isnan(x) ? x : 0.0;
  const Pair<double> q = two_prod(x, x);
  const double e = exp(-0.5 * q.hi);
  return fma(-0.5 * q.lo, e, e);
}
inline constexpr double root_half = 0.70710678118654752440;

RUSH_FN double ndtr(double x) {
  const double tail = 0.5 * gauss(x) * erfcx(fabs(x) * root_half);
  if (isnan(x)) return x;
  return x < 0.0 ? tail : 1.0 - tail;
}
RUSH_FN double log_ndtr(double x) {
  if (isnan(x)) return x;
  if (x >= -1.0) return log1p(-ndtr(-x));
  if (x < -1e154) return -limits<double>::inf;
  const Pair<double> q = two_prod(x, x);
  return log(0.5 * erfcx(-x * root_half)) - 0.5 * q.hi - 0.5 * q.lo;
}
// The inverse of ndtr. In the tail by Newton's steps on the logarithm, which is nearly a parabola.
RUSH_FN double ndtri(double p) {
  if (isnan(p) || p < 0.0 || p > 1.0) return limits<double>::nan;
  if (p == 0.0 || p == 1.0) return p == 0.0 ? -limits<double>::inf : limits<double>::inf;
  if (p > 0.2 && p < 0.8) return erfinv(2.0 * p - 1.0) * 1.41421356237309504880;
  const double q = p < 0.5 ? p : 1.0 - p, l = log(q);
  const double t = sqrt(-2.0 * l);
  // Hastings's guess, right to 5e-4
  double z = (2.515517 + t * (0.802853 + t * 0.010328)) /
                 (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))) -
             t;
  for (int i = 0; i < 4; ++i) {
    const double slope = 0.79788456080286535588 / erfcx(-z * root_half);  // sqrt(2 / pi)
    const double step = (log_ndtr(z) - l) / slope;
    z -= step;
    if (fabs(step) < 1e-15 * fabs(z)) break;
  }
  return p < 0.5 ? z : -z;
}

// ---- incomplete gamma functions ----

// log(1 + x) - x without cancellation, x > -1.
RUSH_FN double log1p_less(double x) {
  if (fabs(x) > 0.4) return log1p(x) - x;
  const double y = x / (2.0 + x), z = y * y;
  double sum = 0.0;
  for (int k = 14; k > 0; --k) sum = fma(sum, z, 1.0 / (2.0 * k + 1.0));
  return 2.0 * y * z * sum - x * y;
}
// log of gamma(1 + x), |x| < 1/2, with x's own relative error: sum of zeta(k) (-x)^k / k.
RUSH_FN double lgamma1p(double x) {
  if (fabs(x) > 0.25) return lgamma(1.0 + x);
  const double zetas[] = {
      0x1.a51a6625307d3p+0, 0x1.33ba004f00621p+0, 0x1.151322ac7d848p+0, 0x1.097418eca7ccep+0,
      0x1.0470984c09245p+0, 0x1.02232da14cf39p+0, 0x1.010b36af86397p+0, 0x1.00839f3d816b5p+0,
      0x1.00412e33a5bb9p+0, 0x1.0020631be48b3p+0, 0x1.001020a5b2cd3p+0, 0x1.00080ac9d08bcp+0,
      0x1.00040392bcad4p+0, 0x1.0002012f797e2p+0, 0x1.00010064cdeb2p+0, 0x1.00008021839b4p+0,
      0x1.0000400b2654ep+0, 0x1.00002003b611fp+0, 0x1.000010013c594p+0, 0x1.00000800695d6p+0,
      0x1.000004002319bp+0, 0x1.000002000bb1ep+0, 0x1.0000010003e5ap+0, 0x1.00000080014c7p+0,
      0x1.00000040006edp+0, 0x1.000000200024fp+0, 0x1.00000010000c5p+0, 0x1.0000000800042p+0,
      0x1.0000000400016p+0};
  double sum = 0.0;
  for (int k = 30; k >= 2; --k) sum = fma(sum, -x, zetas[k - 2] / k);
  return x * fma(x, sum, -0x1.2788cfc6fb619p-1);
}
// x^a e^-x / gamma(a). From a = 10 on by Stirling's series, so that large logarithms do not cancel.
RUSH_FN double gamma_density(double a, double x) {
  if (a < 10.0) {
    const double rest = a * log(x) - lgamma(a);
    return x < 700.0 ? exp(-x) * exp(rest) : exp(rest - x);
  }
  const double w = 1.0 / a, z = w * w;
  const double series = w * poly(z, 1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188,
                                 -691.0 / 360360, 1.0 / 156);
  const double mu = (x - a) / a, l = fabs(mu) > 0.4 ? log(x / a) - mu : log1p_less(mu);
  return sqrt(a / (2.0 * pi<double>)) * exp(a * l - series);
}
// P(a, x) by its power series.
RUSH_FN double igamma_series(double a, double x) {
  double term = 1.0, sum = 1.0;
  for (int n = 1; n < 20000; ++n) {
    term *= x / (a + n);
    sum += term;
    if (term < 1e-17 * sum) break;
  }
  return sum * (gamma_density(a, x) / a);
}
// Q(a, x) by Legendre's continued fraction (Lentz), for x > a.
RUSH_FN double igammac_fraction(double a, double x) {
  double b = x + 1.0 - a, c = 1e300, d = 1.0 / b, h = d;
  for (int n = 1; n < 20000; ++n) {
    const double an = n * (a - n);
    b += 2.0;
    d = 1.0 / fma(an, d, b);
    c = b + an / c;
    const double factor = c * d;
    h *= factor;
    if (fabs(factor - 1.0) < 1e-16) break;
  }
  return h * gamma_density(a, x);
}
// Q(a, x) for small x: 1 - x^a / gamma(1 + a) + ..., where the first two nearly cancel for small a.
RUSH_FN double igammac_small(double a, double x) {
  double factor = 1.0, sum = 0.0;
  for (int n = 1; n < 200; ++n) {
    factor *= -x / n;
    const double term = factor / (a + n);
    sum += term;
    if (fabs(term) < 1e-17 * fabs(sum)) break;
  }
  const double l = log(x), gamma1 = a < 0.5 ? lgamma1p(a) : lgamma(1.0 + a);
  return -expm1(a * l - gamma1) - a * exp(a * l - gamma1) * sum;
}
// Temme's uniform expansion for large a with x near it: the normal tail, and corrections in
// eta, where eta^2 / 2 = x / a - 1 - log(x / a).
struct GammaParts {
  double p, q;  // the smaller one is computed, the other is what it lacks to 1
};
RUSH_FN GammaParts igamma_temme(double a, double x) {
  const double mu = (x - a) / a;
  const double eta = copysign(sqrt(-2.0 * log1p_less(mu)), mu);
  const double c0 = poly(eta, -0x1.5555555555555p-2, 0x1.5555555555555p-4, -0x1.e573ac901e574p-7,
                         0x1.2f684bda12f68p-10, 0x1.71de3a556c734p-12, -0x1.76e06fec7273bp-13,
                         0x1.48c5892f7cd83p-15, -0x1.255370652afc1p-19, -0x1.f1b22f594c6b5p-20,
                         0x1.bd6d21e4b4109p-21, -0x1.7b5f9a2d0465cp-23, 0x1.ccf5ceb7f0d9fp-28,
                         0x1.6097d55c37c1cp-27);
  const double c1 = poly(eta, -0x1.e573ac901e574p-10, -0x1.c71c71c71c71cp-9, 0x1.5ac056b015ac0p-9,
                         -0x1.0394f6f09e723p-10, 0x1.af83440e53dbcp-13, -0x1.af83440e53dbcp-22,
                         -0x1.2fa4ae89e5af0p-16, 0x1.00a9cabd6b83ep-17, -0x1.b0bdfcc629cbap-20,
                         0x1.3f59230a8357cp-28);
  const double c2 = poly(eta, 0x1.0ee643b990ee6p-8, -0x1.5f7268edab4c8p-9, 0x1.948b0fcd6e9e0p-11,
                         0x1.0db20a88f4696p-19, -0x1.c253efaa1a932p-14, 0x1.bbf43daf4fe53p-15,
                         -0x1.ac2d05890f2c3p-17);
  const double rest = exp(-0.5 * a * eta * eta) / sqrt(2.0 * pi<double> * a);
  const double z = eta * sqrt(0.5 * a);
  const double correction = rest * (c0 + (c1 + c2 / a) / a);
  const double smaller = 0.5 * erfc(fabs(z)) + (z < 0.0 ? -correction : correction);
  return z < 0.0 ? GammaParts{smaller, 1.0 - smaller} : GammaParts{1.0 - smaller, smaller};
}

RUSH_FN GammaParts igamma_parts(double a, double x) {
  if (isnan(a) || isnan(x) || a < 0.0 || x < 0.0 || (a == 0.0 && x == 0.0) ||
      (isinf(a) && isinf(x)))
    return {limits<double>::nan, limits<double>::nan};
  if (a == 0.0 || isinf(x)) return {1.0, 0.0};
  if (x == 0.0 || isinf(a)) return {0.0, 1.0};
  if (a > 20000.0 && fabs(x - a) < 0.1 * a) return igamma_temme(a, x);
  bool series;
  if (x > 1.1)
    series = x < a;
  else if (x <= 0.5)
    series = -0.4 / log(x) < a;
  else
    series = x * 1.1 < a;
  if (series) {
    const double p = igamma_series(a, x);
    return {p, 1.0 - p};
  }
  const double q = x > 1.1 ? igammac_fraction(a, x) : igammac_small(a, x);
  return {1.0 - q, q};
}

}  // namespace rush::math
