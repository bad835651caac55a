// math_bessel.h: Bessel functions of orders 0 and 1, and Airy's. In double; float goes through it.
//
// Small arguments: power series. Middle ones: recurrences from far out (J, Y), a continued fraction
// (K), Taylor series from the nearest integer (Ai). Large ones: asymptotic series.
#pragma once

#include "math.h"

namespace rush::math {

inline constexpr double euler_gamma = 0x1.2788cfc6fb619p-1;

struct BesselPair {
  double j, y;
};

// Hankel's asymptotic series for x >= 25: sqrt(2 / (pi x)) (P cos - Q sin), and the same turned.
RUSH_FN BesselPair bessel_far(int order, double x) {
  const double mu = order == 0 ? 0.0 : 4.0;
  double p = 1.0, q = 0.0, term = 1.0;
  for (int k = 1; k <= 40; ++k) {
    const double odd = 2.0 * k - 1.0;
    const double next = term * (mu - odd * odd) / (8.0 * k * x);
    if (fabs(next) > fabs(term) || next == 0.0) break;
    term = next;
    // term is a_k / x^k; signs alternate in pairs
    const double sign = (k / 2) % 2 == 0 ? 1.0 : -1.0;
    if (k % 2 == 0)
      p += sign * term;
    else
      q += sign * term;
    if (fabs(term) < 1e-18) break;
  }
  const double c = cos(x), s = sin(x), root = sqrt(1.0 / (pi<double> * x));
  // cos and sin of x - pi / 4, or of x - 3 pi / 4, both times sqrt(2)
  const double cosine = order == 0 ? c + s : s - c, sine = order == 0 ? s - c : -(s + c);
  return {root * (p * cosine - q * sine), root * (p * sine + q * cosine)};
}

// The power series, for 0 < x <= 1.
RUSH_FN BesselPair bessel_near(int order, double x) {
  const double u = 0.25 * x * x,
               half_log = x < 1e-300 ? log(x) - 0x1.62e42fefa39efp-1 : log(0.5 * x);
  double j = 0.0, rest = 0.0, term = order == 0 ? 1.0 : 0.5 * x;
  double harmonic = 0.0;  // H_k
  for (int k = 0; k < 16; ++k) {
    if (k > 0) {
      term *= -u / (double(k) * (k + order));
      harmonic += 1.0 / k;
    }
    j += term;
    // order 0: H_k; order 1: psi(k + 1) + psi(k + 2)
    rest += term * (order == 0 ? harmonic : 2.0 * (harmonic - euler_gamma) + 1.0 / (k + 1.0));
  }
  const double two_over_pi = 2.0 / pi<double>;
  if (order == 0) return {j, two_over_pi * ((half_log + euler_gamma) * j - rest)};
  return {j, two_over_pi * (half_log * j - 0.5 * rest - 1.0 / x)};
}

// For 1 < x < 25: J_n by the recurrence downwards from far out, scaled so that J0 + 2 (J2 + J4 +
// ...) is 1; Y by Neumann's sums of them.
RUSH_FN BesselPair bessel_middle(int order, double x) {
  const int top = 2 * (int(0.5 * x) + 22);
  double above = 0.0, here = 1e-280, norm = 0.0, sum0 = 0.0, sum1 = 0.0, j1 = 0.0;
  for (int n = top; n > 0; --n) {  // here is J_n
    const int k = n / 2;
    const double sign = k % 2 == 0 ? 1.0 : -1.0;
    if (n % 2 == 0) {
      norm += 2.0 * here;
      sum0 += sign * here / k;
    } else if (k > 0) {
      sum1 += sign * (2.0 * k + 1.0) / (k * (k + 1.0)) * here;
    }
    if (n == 1) j1 = here;
    const double below = 2.0 * n / x * here - above;
    above = here;
    here = below;
  }
  norm += here;
  const double j0 = here / norm, one = j1 / norm, two_over_pi = 2.0 / pi<double>;
  const double half_log = log(0.5 * x) + euler_gamma;
  if (order == 0) return {j0, two_over_pi * (half_log * j0 - 2.0 * sum0 / norm)};
  return {one, two_over_pi * ((half_log - 1.0) * one - j0 / x - sum1 / norm)};
}

RUSH_FN BesselPair bessel_positive(int order, double x) {
  if (x >= 25.0) return bessel_far(order, x);
  return x <= 1.0 ? bessel_near(order, x) : bessel_middle(order, x);
}

RUSH_FN double bessel_j(int order, double x) {
  const double a = fabs(x);
  if (isnan(x)) return x;
  if (a == 0.0) return order == 0 ? 1.0 : x;
  if (isinf(a)) return 0.0;
  const double j = bessel_positive(order, a).j;
  return order == 1 && x < 0.0 ? -j : j;
}
RUSH_FN double bessel_y(int order, double x) {
  if (isnan(x)) return x;
  if (x < 0.0) return limits<double>::nan;
  if (x == 0.0) return -limits<double>::inf;
  if (isinf(x)) return 0.0;
  return bessel_positive(order, x).y;
}

// e^-|x| I(x)
RUSH_FN double bessel_i_scaled(int order, double x) {
  const double a = fabs(x);
  if (isnan(x)) return x;
  double y;
  if (a < 30.0) {
    const double u = 0.25 * a * a;
    double sum = 1.0;
    // the terms behind are below 1e-20 of the sum
    for (int k = 12 + static_cast<int>(1.6 * a); k > 0; --k)
      sum = fma(u / (double(k) * (k + order)), sum, 1.0);
    y = (order == 0 ? sum : 0.5 * a * sum) * exp(-a);
  } else {
    const double mu = order == 0 ? 0.0 : 4.0;
    double sum = 1.0, term = 1.0;
    for (int k = 1; k < 20; ++k) {
      const double odd = 2.0 * k - 1.0;
      term *= (odd * odd - mu) / (8.0 * k * a);
      sum += term;
    }
    y = sum / sqrt(2.0 * pi<double> * a);
  }
  return order == 1 && x < 0.0 ? -y : y;
}

struct KPair {
  double k, next;  // of order nu and nu + 1
};
// 1 + (m - 1) / 8x + (m - 1)(m - 9) / 2! (8x)^2 + ..., m = 4 nu^2, for x so large that three terms
// do.
RUSH_FN double bessel_k_far(double nu, double x) {
  const double m = 4.0 * nu * nu, y = 0.125 / x;
  return 1.0 + (m - 1.0) * y * (1.0 + (m - 9.0) * y * (0.5 + (m - 25.0) * y / 6.0));
}
// e^x K(x) for x >= 1 or so, by Temme's sum and the continued fraction of Thompson and Barnett.
RUSH_FN KPair bessel_k_fraction(double nu, double x) {
  if (x > 1e4) {  // where the fraction's terms may overflow
    const double k = sqrt(pi<double> / 2.0 / x);
    return {k * bessel_k_far(nu, x), k * bessel_k_far(nu + 1.0, x)};
  }
  const double a1 = 0.25 - nu * nu;
  double b = 2.0 * (1.0 + x), d = 1.0 / b, step = d, fraction = d;
  double before = 0.0, last = 1.0, a = -a1, c = a1, q = a1;
  double sum = 1.0 + q * step;
  for (int i = 2; i < 500; ++i) {
    a -= 2.0 * (i - 1);
    c = -a * c / i;
    const double next = (before - b * last) / a;
    before = last;
    last = next;
    q += c * next;
    b += 2.0;
    d = 1.0 / (b + a * d);
    step = (b * d - 1.0) * step;
    fraction += step;
    const double more = q * step;
    sum += more;
    if (fabs(more) < 1e-17 * fabs(sum)) break;
  }
  const double k = sqrt(pi<double> / (2.0 * x)) / sum;
  return {k, k * (nu + x + 0.5 - a1 * fraction) / x};
}
// K(x), or e^x K(x)
RUSH_FN double bessel_k(int order, double x, bool scaled) {
  if (isnan(x)) return x;
  if (x < 0.0) return limits<double>::nan;
  if (x == 0.0) return limits<double>::inf;
  if (isinf(x) || (!scaled && x > 800.0)) return 0.0;
  if (x > 1e17) return sqrt(pi<double> / (2.0 * x));  // the fraction is 1
  if (x > 2.0) {
    const KPair found = bessel_k_fraction(0.0, x);
    const double k = order == 0 ? found.k : found.next;
    return scaled ? k : k * exp(-x);
  }
  const double u = 0.25 * x * x,
               half_log = x < 1e-300 ? log(x) - 0x1.62e42fefa39efp-1 : log(0.5 * x);
  double i = 0.0, rest = 0.0, term = order == 0 ? 1.0 : 0.5 * x, harmonic = 0.0;
  for (int k = 0; k < 20; ++k) {
    if (k > 0) {
      term *= u / (double(k) * (k + order));
      harmonic += 1.0 / k;
    }
    i += term;
    rest += term * (order == 0 ? harmonic : 2.0 * (harmonic - euler_gamma) + 1.0 / (k + 1.0));
  }
  const double k =
      order == 0 ? rest - (half_log + euler_gamma) * i : 1.0 / x + half_log * i - 0.5 * rest;
  return scaled ? k * exp(x) : k;
}

// a - root^2, exactly.
RUSH_FN double square_rest(double root, double a) {
  const Pair<double> square = two_prod(root, root);
  return (a - square.hi) - square.lo;
}
// Airy's function Ai: y'' = x y. Taylor series from the nearest integer, where value and slope are
// known; K of order 1/3 to the right, an asymptotic series to the left.
RUSH_FN double airy_ai(double x) {
  if (isnan(x)) return x;
  if (isinf(x)) return 0.0;
  // z = 2/3 |x|^(3/2) is a phase, or an exponent: it is kept to twice the digits.
  const double a = fabs(x), root = sqrt(a),
               root_lo = a > 0.0 ? square_rest(root, a) / (2.0 * root) : 0.0;
  const Pair<double> cube = two_prod(a, root);
  const double third = 0x1.5555555555555p-1;
  const Pair<double> product = two_prod(cube.hi, third);
  const double z = product.hi, z_lo = product.lo + cube.hi * 0x1.5555555555555p-55 +
                                      third * (a * root_lo + cube.lo);
  if (x > 2.0) {
    if (z > 760.0) return 0.0;
    const double e = exp(-z);
    return sqrt(x / 3.0) / pi<double> * bessel_k_fraction(1.0 / 3.0, z).k * fma(-z_lo, e, e);
  }
  if (x < -10.0) {
    // even and odd terms u_k / z^k, u_k = u_(k-1) (6k - 5)(6k - 3)(6k - 1) / (216 k (2k - 1))
    double even = 1.0, odd = 0.0, term = 1.0;
    for (int k = 1; k < 40; ++k) {
      const double next = term * (6.0 * k - 5.0) * (6.0 * k - 3.0) * (6.0 * k - 1.0) /
                          (216.0 * k * (2.0 * k - 1.0) * z);
      if (next > term) break;
      term = next;
      const double sign = (k / 2) % 2 == 0 ? 1.0 : -1.0;
      if (k % 2 == 0)
        even += sign * term;
      else
        odd += sign * term;
      if (term < 1e-18) break;
    }
    // cos and sin of z - pi / 4, times sqrt(2)
    const double c0 = cos(z), s0 = sin(z), c1 = cos(z_lo), s1 = sin(z_lo);
    const double c = c0 * c1 - s0 * s1, s = s0 * c1 + c0 * s1;
    const double cosine = c + s, sine = s - c;
    return (cosine * even + sine * odd) / sqrt(2.0 * pi<double> * sqrt(a));
  }
  const double known[13][2] = {{0x1.49a7fe67fe71ap-5, 0x1.fe1673ad658b8p-1},
                               {-0x1.6aa38e8bd0844p-6, -0x1.f38a3ab3ed723p-1},
                               {-0x1.afc28073abb84p-5, 0x1.df01d7e1f41fap-1},
                               {0x1.79683b0571a28p-3, -0x1.8ac195288a6bdp-1},
                               {-0x1.510b6eb1815d2p-2, 0x1.623ce99198c5bp-2},
                               {0x1.672de4d9e1d32p-2, 0x1.4f0ba25cb5a72p-2},
                               {-0x1.1fcec060d9f19p-4, -0x1.94cd44c4fb752p-1},
                               {-0x1.83e7e4ea6959ap-2, 0x1.42223f628d022p-2},
                               {0x1.d1bafc57f31d0p-3, 0x1.3c8c724515c8fp-1},
                               {0x1.1235093d83da5p-1, -0x1.4cf103bcc6624p-7},
                               {0x1.6b8c7962715b8p-2, -0x1.0907f42b70f8bp-2},
                               {0x1.151430bbaf656p-3, -0x1.45ef17fce4faep-3},
                               {0x1.1e1935c04b623p-5, -0x1.b2ea9b1bfccdcp-5}};
  const double center = round(x), h = x - center;
  const int at = static_cast<int>(center) + 10;
  // c_(k+2) = (center c_k + c_(k-1)) / ((k + 1)(k + 2))
  double before = 0.0, c0 = known[at][0], c1 = known[at][1], power = h, sum = fma(c1, h, c0);
  for (int k = 0; k < 40; ++k) {
    const double c2 = (center * c0 + before) / ((k + 1.0) * (k + 2.0));
    power *= h;
    sum += c2 * power;
    before = c0;
    c0 = c1;
    c1 = c2;
    if (fabs(power) < 1e-19) break;
  }
  return sum;
}

}  // namespace rush::math
