// sampling.h: draws that need rejection: gamma, Poisson and binomial numbers, and the derivative of
// a gamma draw by its shape. One formula for CPU and CUDA; all in double, whatever the tensor
// holds.
#pragma once

#include "math.h"
#include "philox.h"
#include "random.h"

namespace rush::functors {

// The random words of one element: as many as it asks for, and nobody else's.
class Draws {
 public:
  RUSH_FN Draws(u64 seed, u64 call, u64 element)
      : seed_(seed), call_(call), next_(element << 20), used_(2), block_{} {}
  RUSH_FN double uniform() { return uniform_double(word()); }     // [0, 1)
  RUSH_FN double positive() { return positive_uniform(word()); }  // (0, 1]
  RUSH_FN double normal() {
    double first, second;
    const u64 a = word(), b = word();
    normal_pair(a, b, first, second);
    return first;
  }

 private:
  RUSH_FN u64 word() {
    if (used_ == 2) {
      block_ = philox(seed_, call_, next_++);
      used_ = 0;
    }
    return philox_pair(block_, used_++);
  }
  u64 seed_, call_, next_;
  int used_;
  Philox4 block_;
};

RUSH_FN double not_a_number() { return limits<double>::nan; }

// Marsaglia and Tsang, "A simple method for generating gamma variables", 2000. Shapes below 1 are
// drawn one higher and scaled by a power of a uniform number.
RUSH_FN double draw_gamma(double shape, Draws& draws) {
  if (!(shape >= 0)) return not_a_number();
  if (shape == 0 || shape > 1e300) return shape;
  double scale = 1;
  if (shape < 1) {
    scale = math::exp(math::log(draws.positive()) / shape);
    shape += 1;
  }
  const double d = shape - 1.0 / 3, c = 1 / math::sqrt(9 * d);
  for (;;) {
    const double x = draws.normal(), y = 1 + c * x;
    if (y <= 0) continue;
    const double v = y * y * y, u = draws.positive(), xx = x * x;
    if (u < 1 - 0.0331 * xx * xx) return scale * d * v;
    if (math::log(u) < 0.5 * xx + d * (1 - v + math::log(v))) return scale * d * v;
  }
}

// Hoermann, "The transformed rejection method for generating Poisson random variables", 1993
// (PTRS); below a rate of 10, products of uniform numbers.
RUSH_FN double draw_poisson(double rate, Draws& draws) {
  if (!(rate >= 0)) return not_a_number();
  if (rate > 1e300) return rate;
  if (rate < 10) {
    const double limit = math::exp(-rate);
    double product = draws.positive(), k = 0;
    while (product > limit) {
      product *= draws.positive();
      k += 1;
    }
    return k;
  }
  const double log_rate = math::log(rate), b = 0.931 + 2.53 * math::sqrt(rate);
  const double a = -0.059 + 0.02483 * b, v_r = 0.9277 - 3.6224 / (b - 2);
  const double log_inv_alpha = math::log(1.1239 + 1.1328 / (b - 3.4));
  for (;;) {
    const double u = draws.uniform() - 0.5, v = draws.positive(), s = 0.5 - math::fabs(u);
    const double k = math::floor((2 * a / s + b) * u + rate + 0.43);
    if (s >= 0.07 && v <= v_r) return k;
    if (k < 0 || (s < 0.013 && v > s)) continue;
    if (math::log(v) + log_inv_alpha - math::log(a / (s * s) + b) <=
        k * log_rate - rate - math::lgamma(k + 1))
      return k;
  }
}

// Hoermann, "The generation of binomial random variates", 1993 (BTRS); where fewer than 10
// successes are expected, waiting times between them. Needs p <= 1/2.
RUSH_FN double draw_binomial_small_p(double n, double p, Draws& draws) {
  if (n * p < 10) {
    const double log_q = math::log1p(-p);
    double trials = 0, k = 0;
    for (;;) {
      const double wait = math::ceil(math::log(draws.positive()) / log_q);
      trials += wait < 1 ? 1 : wait;
      if (trials > n) return k;
      k += 1;
    }
  }
  const double deviation = math::sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * deviation;
  const double a = -0.0873 + 0.0248 * b + 0.01 * p, c = n * p + 0.5, v_r = 0.92 - 4.2 / b;
  const double alpha = (2.83 + 5.1 / b) * deviation, m = math::floor((n + 1) * p);
  const double log_odds = math::log(p / (1 - p));
  const double log_mode = math::lgamma(m + 1) + math::lgamma(n - m + 1);
  for (;;) {
    const double u = draws.uniform() - 0.5, v = draws.positive(), s = 0.5 - math::fabs(u);
    const double k = math::floor((2 * a / s + b) * u + c);
    if (k < 0 || k > n) continue;
    if (s >= 0.07 && v <= v_r) return k;
    const double log_ratio =
        log_mode - math::lgamma(k + 1) - math::lgamma(n - k + 1) + (k - m) * log_odds;
    if (math::log(v * alpha / (a / (s * s) + b)) <= log_ratio) return k;
  }
}

RUSH_FN double draw_binomial(double n, double p, Draws& draws) {
  if (!(p >= 0 && p <= 1 && n >= 0) || n > 1e300) return not_a_number();
  if (n == 0 || p == 0) return 0;
  if (p == 1) return n;
  return p <= 0.5 ? draw_binomial_small_p(n, p, draws) : n - draw_binomial_small_p(n, 1 - p, draws);
}

// d x / d shape of a gamma draw x at a fixed quantile: -(dP/da) / (dP/dx), P the regularised lower
// incomplete gamma function (Figurnov, Mohamed, Mnih, "Implicit reparameterization gradients",
// 2018).
//
// - Left of the mean: the power series of P, term by term. All terms then have one sign.
// - Right of it: Legendre's continued fraction of the upper function, differentiated step by step.
// - Large shapes: the quantile as a function of the shape, by the expansion of Cornish and Fisher.
RUSH_FN double gamma_draw_derivative(double a, double x) {
  if (!(a > 0 && x >= 0)) return not_a_number();
  if (x == 0) return 0;
  if (a > 1e5) {
    const double root = math::sqrt(a);
    double z = (x - a) / root;  // then the normal quantile, by two steps of fixed point
    for (int i = 0; i < 4; ++i)
      z = (x - a) / root - (z * z - 1) / (3 * root) - (z * z * z - 7 * z) / (36 * a);
    return 1 + z / (2 * root) - (z * z * z - 7 * z) / (72 * a * root);
  }
  const double log_x = math::log(x);
  if (x < a + 1) {
    double term = 1 / a, digamma = math::digamma(a + 1), sum = 0;
    for (double n = 1; n < 20000; n += 1) {
      const double part = term * (log_x - digamma);
      sum += part;
      if (math::fabs(part) <= 1e-17 * math::fabs(sum)) break;
      digamma += 1 / (a + n);
      term *= x / (a + n);
    }
    return -x * sum;
  }
  // f = 1 / (b0 + a1 / (b1 + a2 / (b2 + ...))), a_i = -i (i - a), b_i = x + 2 i + 1 - a, by Lentz's
  // method; a name with a prime is the derivative by a.
  double b = x + 1 - a, d = 1 / b, d_ = d * d, c = 1e300, c_ = 0, f = d, f_ = d_;
  for (double i = 1; i < 20000; i += 1) {
    const double an = -i * (i - a), an_ = i;
    b += 2;
    const double e = an * d + b, e_ = an_ * d + an * d_ - 1;
    d = 1 / e;
    d_ = -e_ * d * d;
    const double c_next_ = an_ / c - an * c_ / (c * c) - 1;
    c = b + an / c;
    c_ = c_next_;
    const double step = c * d, step_ = c_ * d + c * d_;
    f_ = f_ * step + f * step_;
    f *= step;
    if (math::fabs(step - 1) <= 1e-16 && math::fabs(step_) <= 1e-16) break;
  }
  return x * (f * (log_x - math::digamma(a)) + f_);
}

}  // namespace rush::functors
