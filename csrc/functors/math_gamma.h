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
// `single`: for results that are rounded to float, sums stop earlier.

// log(1 + x) - x without cancellation, x > -1.
RUSH_FN double log1p_less(double x) {
  if (fabs(x) > 0.4) return log1p(x) - x;
  const double y = x / (2.0 + x), z = y * y;
  const double sum = poly(z, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15,
                          1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23, 1.0 / 25, 1.0 / 27, 1.0 / 29);
  return 2.0 * y * z * sum - x * y;
}
// log of gamma(1 + x), |x| < 1/2, with x's own relative error: sum of zeta(k) (-x)^k / k.
RUSH_FN double lgamma1p(double x) {
  if (fabs(x) > 0.25) return lgamma(1.0 + x);
  const double terms[] = {
      0x1.a51a6625307d3p-1, 0x1.9a4d55beab2d7p-2, 0x1.151322ac7d848p-2, 0x1.a8b9c17aa6149p-3,
      0x1.5b40cb100c306p-3, 0x1.2703a1dcea3aep-3, 0x1.010b36af86397p-3, 0x1.c806706d57db4p-4,
      0x1.9a01e385d5f8fp-4, 0x1.748c33114c6d6p-4, 0x1.556ad63243bc4p-4, 0x1.3b1d971fc5985p-4,
      0x1.2496df8320c5fp-4, 0x1.11133476e7fe0p-4, 0x1.00010064cdeb2p-4, 0x1.e1e2d311e8abdp-5,
      0x1.c71ce3a20b419p-5, 0x1.af28a1b5688a0p-5, 0x1.9999b3352d5bap-5, 0x1.86186db77bfbfp-5,
      0x1.745d1d1778df9p-5, 0x1.642c88591b66dp-5, 0x1.555556aaafdcdp-5, 0x1.47ae151eb9fb7p-5,
      0x1.3b13b189d925ep-5, 0x1.2f684c00002bcp-5, 0x1.24924936db7bcp-5, 0x1.1a7b961a7b9aap-5,
      0x1.111111155556dp-5};
  double sum = 0.0;
  for (int k = 28; k >= 0; --k) sum = fma(sum, -x, terms[k]);
  return x * fma(x, sum, -0x1.2788cfc6fb619p-1);
}
// x^a e^-x / gamma(a). From a = 10 on by Stirling's series, so that large logarithms do not cancel.
template <bool single>
RUSH_FN double gamma_density(double a, double x) {
  if (a < 10.0) {
    const double rest = a * log(x) - lgamma(a);
    return single || x >= 700.0 ? exp(rest - x) : exp(-x) * exp(rest);
  }
  const double w = 1.0 / a, z = w * w;
  const double series = w * poly(z, 1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188,
                                 -691.0 / 360360, 1.0 / 156);
  const double mu = (x - a) / a, l = fabs(mu) > 0.4 ? log(x / a) - mu : log1p_less(mu);
  return sqrt(a / (2.0 * pi<double>)) * exp(a * l - series);
}
// P(a, x) by its power series.
template <bool single>
RUSH_FN double igamma_series(double a, double x) {
  double term = 1.0, sum = 1.0;
  for (int n = 1; n < 20000; ++n) {
    term *= x / (a + n);
    sum += term;
    if (term < (single ? 1e-10 : 1e-17) * sum) break;
  }
  return sum * (gamma_density<single>(a, x) / a);
}
// Q(a, x) by Legendre's continued fraction, for x > a: its numerators and denominators go on
// without a division, which would take as long as all the rest of a step.
template <bool single>
RUSH_FN double igammac_fraction(double a, double x) {
  const double density = gamma_density<single>(a, x);
  if (density == 0.0) return 0.0;
  const double b0 = x + 1.0 - a;
  double b = b0 + 2.0, num0 = 1.0 / b0, den0 = 1.0, num = b * num0, den = b + (a - 1.0) * num0;
  for (int n = 2; n < 20000; ++n) {
    const double an = n * (a - n);
    b += 2.0;
    const double num2 = fma(b, num, an * num0), den2 = fma(b, den, an * den0);
    const double here = num2 * den, before = num * den2;
    num0 = num, den0 = den, num = num2, den = den2;
    if (fabs(here - before) <= (single ? 1e-10 : 2e-16) * fabs(here)) break;
    if (fabs(den) > 1e60) {
      const double s = 1.0 / den;
      num0 *= s, den0 *= s, num *= s, den = 1.0;
    }
  }
  return num / den * density;
}
// Q(a, x) for small x: 1 - x^a / gamma(1 + a) + ..., where the first two nearly cancel for small a.
template <bool single>
RUSH_FN double igammac_small(double a, double x) {
  double factor = 1.0, sum = 0.0;
  for (int n = 1; n < 200; ++n) {
    factor *= -x / n;
    const double term = factor / (a + n);
    sum += term;
    if (fabs(term) < (single ? 1e-10 : 1e-17) * fabs(sum)) break;
  }
  const double gamma1 = a < 0.5 ? lgamma1p(a) : lgamma(1.0 + a);
  const double less = expm1(fma(a, log(x), -gamma1));
  return -less - a * (1.0 + less) * sum;
}

struct GammaParts {
  double p, q;  // the smaller one is computed, the other is what it lacks to 1
};
// The k-th coefficient of Temme's expansion, |eta| < 0.34. Each is the derivative of the one before
// over eta, less what is singular; c0 = 1 / mu - 1 / eta.
template <int k>
RUSH_FN double temme_coefficient(double eta) {
  switch (k) {
    case 0:
      return poly(eta, -0x1.5555555555555p-2, 0x1.5555555555555p-4, -0x1.e573ac901e574p-7,
                  0x1.2f684bda12f68p-10, 0x1.71de3a556c734p-12, -0x1.76e06fec7273bp-13,
                  0x1.48c5892f7cd83p-15, -0x1.255370652afc1p-19, -0x1.f1b22f594c6b5p-20,
                  0x1.bd6d21e4b4109p-21, -0x1.7b5f9a2d0465cp-23, 0x1.ccf5ceb7f0d9fp-28,
                  0x1.6097d55c37c1cp-27, -0x1.2d2197c7a2faap-28, 0x1.f6e66d24d5c8ap-31,
                  -0x1.c0d9b6edf2b0bp-36, -0x1.0070a87340428p-34, 0x1.ac9475c463659p-36);
    case 1:
      return poly(eta, -0x1.e573ac901e574p-10, -0x1.c71c71c71c71cp-9, 0x1.5ac056b015ac0p-9,
                  -0x1.0394f6f09e723p-10, 0x1.af83440e53dbcp-13, -0x1.af83440e53dbcp-22,
                  -0x1.2fa4ae89e5af0p-16, 0x1.00a9cabd6b83ep-17, -0x1.b0bdfcc629cbap-20,
                  0x1.3f59230a8357cp-28, 0x1.280f2cde3f847p-23, -0x1.ee23d0cba8aeep-25,
                  0x1.9aa7a30de114cp-27, -0x1.349fbca3a377bp-36, -0x1.1564ecff73d58p-30,
                  0x1.c9b434bf3c34ep-32);
    case 2:
      return poly(eta, 0x1.0ee643b990ee6p-8, -0x1.5f7268edab4c8p-9, 0x1.948b0fcd6e9e0p-11,
                  0x1.0db20a88f4696p-19, -0x1.c253efaa1a932p-14, 0x1.bbf43daf4fe53p-15,
                  -0x1.ac2d05890f2c3p-17, 0x1.26154ae39151dp-25, 0x1.7058929663937p-20,
                  -0x1.522cb05171911p-21, 0x1.32ac81c15d3d7p-23, -0x1.c24bd0e740a6cp-33,
                  -0x1.e437343a46f5dp-27, 0x1.ac0d455e25360p-28);
    case 3:
      return poly(eta, 0x1.547d93b34e2b6p-11, 0x1.e13ce465fa859p-13, -0x1.ebfb188b7ca00p-12,
                  0x1.18b9b5bf2d984p-12, -0x1.3d2a3a29b5d9dp-14, -0x1.0152a1871f27ap-22,
                  0x1.73df462204ef4p-17, -0x1.7cd6f27b3f020p-18, 0x1.7e0201539310ep-20,
                  -0x1.ea23269c140a7p-36, -0x1.6c2dcffbefeefp-23, 0x1.5bde8ef4c4dc7p-24,
                  -0x1.4853ced169327p-26);
    case 4:
      return poly(eta, -0x1.c3e0b02da7bf9p-11, 0x1.9b0ff6874f2c4p-11, -0x1.3999a85a4237ap-12,
                  -0x1.88f2ae1def9d0p-20, 0x1.16908b48ce058p-14, -0x1.4ce3fd902bcadp-15,
                  0x1.7db4c02846e81p-17, 0x1.13b3c5b7cb45ep-32, -0x1.c71c074985d3fp-20,
                  0x1.de37d9f09164cp-21, -0x1.ec676cf33153cp-23);
    case 5:
      return poly(eta, -0x1.6128ac5a4fa71p-12, -0x1.247604839c038p-14, 0x1.22be87360ef1fp-12,
                  -0x1.a2042c5148e27p-13, 0x1.1d1e9cb24760bp-14, 0x1.30bdcf208080ep-23,
                  -0x1.c823fc1b3cc36p-17, 0x1.0d0e229150428p-17, -0x1.338eb19652fd9p-19);
    case 6:
      return poly(eta, 0x1.168ef1b0931c8p-11, -0x1.36773bdb97b48p-11, 0x1.1c0950d3ecb9dp-12,
                  0x1.a8411da6cab49p-21, -0x1.5600945495b37p-14, 0x1.d6bdf83130dc1p-15,
                  -0x1.3382f4cf48618p-16, -0x1.a74243fa27729p-29);
    case 7:
      return poly(eta, 0x1.691879c01efb4p-12, 0x1.b1d75d3346711p-15, -0x1.5f3385098cebfp-12,
                  0x1.26eeb5ece1d9fp-12, -0x1.cc642787368cep-14, -0x1.119c70312e0a2p-23);
    case 8:
      return poly(eta, -0x1.5629b3187b744p-11, 0x1.b8239c670e690p-11, -0x1.cb967b4446107p-12,
                  -0x1.762676b30cfd6p-21, 0x1.5d1157082916dp-13);
    default:
      return 0.0;
  }
}
template <int k, int last>
RUSH_FN double temme_sum(double eta, double w) {
  if constexpr (k == last)
    return temme_coefficient<k>(eta);
  else
    return fma(temme_sum<k + 1, last>(eta, w), w, temme_coefficient<k>(eta));
}
// Temme's uniform expansion for a > 60 with x near it: the normal tail, and corrections in eta,
// where eta^2 / 2 = mu - log(1 + mu) and mu = x / a - 1.
template <bool single>
RUSH_FN GammaParts igamma_temme(double a, double x) {
  const double mu = (x - a) / a, half_square = -log1p_less(mu);
  const double eta = copysign(sqrt(2.0 * half_square), mu), w = 1.0 / a;
  const double z = sqrt(a * half_square);
  const double rest = exp(-a * half_square) / sqrt(2.0 * pi<double> * a);
  const double correction = rest * temme_sum<0, single ? 4 : 8>(eta, w);
  const double smaller = 0.5 * erfc(z) + (mu < 0.0 ? -correction : correction);
  return mu < 0.0 ? GammaParts{smaller, 1.0 - smaller} : GammaParts{1.0 - smaller, smaller};
}

template <bool single>
RUSH_FN GammaParts igamma_parts(double a, double x) {
  if (isnan(a) || isnan(x) || a < 0.0 || x < 0.0 || (a == 0.0 && x == 0.0) ||
      (isinf(a) && isinf(x)))
    return {limits<double>::nan, limits<double>::nan};
  if (a == 0.0 || isinf(x)) return {1.0, 0.0};
  if (x == 0.0 || isinf(a)) return {0.0, 1.0};
  if (a > 60.0 && fabs(x - a) < 0.3 * a) return igamma_temme<single>(a, x);
  bool series;
  if (x > 1.1)
    series = x < a;
  else if (x <= 0.5)
    series = -0.4 / log(x) < a;
  else
    series = x * 1.1 < a;
  if (series) {
    const double p = igamma_series<single>(a, x);
    return {p, 1.0 - p};
  }
  const double q = x > 1.1 ? igammac_fraction<single>(a, x) : igammac_small<single>(a, x);
  return {1.0 - q, q};
}

}  // namespace rush::math
