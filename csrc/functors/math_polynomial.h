// math_polynomial.h: orthogonal polynomials of very large degree in constant time, by their
// asymptotic expansions: the recurrence would take minutes for one element. In double.
#pragma once

#include "math_bessel.h"

namespace rush::math {

// From this degree on the second terms left out below are smaller than the rounding errors that
// the recurrence gathers.
inline constexpr double kLargeDegree = 131072.0;

// acosh of 1 + d, exact for tiny d.
RUSH_FN double acosh1p(double d) { return log1p(d + sqrt(d * (2.0 + d))); }

// P_n: near both ends a Bessel function of the angle, with its first correction.
RUSH_FN double legendre_large(double n, double x) {
  const double a = fabs(x), v = n + 0.5;
  const double sign = x < 0.0 && fmod(n, 2.0) != 0.0 ? -1.0 : 1.0;
  if (isnan(x)) return x;
  if (a == 1.0) return sign;
  if (a < 1.0) {
    const double t = acos(a), s = sin(t);
    const double f = (t * cos(t) - s) / (8.0 * t * s * v);
    return sign * sqrt(t / s) * fma(f, bessel_j(1, v * t), bessel_j(0, v * t));
  }
  const double t = acosh1p(a - 1.0), u = v * t;
  if (u > 1500.0) return sign * limits<double>::inf;
  const double s = sinh(t), f = (t * cosh(t) - s) / (8.0 * t * s * v), half = exp(0.5 * u);
  return sign * half * (sqrt(t / s) * fma(f, bessel_i_scaled(1, u), bessel_i_scaled(0, u))) * half;
}

// L_n: Bessel functions again, uniformly up to where e^(x/2) overflows; the modified ones left of
// zero. With v = 4n + 2 and y = |x| / v, the argument is v xi.
RUSH_FN double laguerre_large(double n, double x) {
  if (isnan(x)) return x;
  if (x == 0.0) return 1.0;
  const double v = 4.0 * n + 2.0, y = fabs(x) / v, root = sqrt(y);
  if (x > 0.0) {
    if (x > 1500.0) return limits<double>::inf;  // the size, for it oscillates
    const double xi = 0.5 * (sqrt(y - y * y) + asin(root)), r = y / (1.0 - y), a = v * xi;
    const double b = -(0.125 + xi * sqrt((1.0 - y) / y) * (-0.125 + r * (0.25 + r * (5.0 / 24.0))));
    const double waves = fma(b / a, bessel_j(1, a), bessel_j(0, a));
    const double half = exp(0.25 * x);
    return half * (sqrt(xi / (root * sqrt(1.0 - y))) * waves) * half;
  }
  const double xi = 0.5 * (sqrt(y + y * y) + log1p(root + y / (1.0 + sqrt(1.0 + y)))), a = v * xi;
  if (a > 1500.0) return limits<double>::inf;
  const double r = -y / (1.0 + y);
  const double b = -(0.125 + xi * sqrt((1.0 + y) / y) * (-0.125 + r * (0.25 + r * (5.0 / 24.0))));
  const double sum = fma(b / a, bessel_i_scaled(1, a), bessel_i_scaled(0, a));
  const double half = exp(0.5 * a);
  return half * (sqrt(xi / (root * sqrt(1.0 + y))) * sum * exp(0.5 * x)) * half;
}

// Chebyshev's T, U, V and W (0 to 3) outside [-1, 1], where they are hyperbolic functions.
RUSH_FN double chebyshev_outside(int kind, double n, double x) {
  if (isnan(x)) return x;
  const double sign = x < 0.0 && fmod(n, 2.0) != 0.0 ? -1.0 : 1.0;
  if (x < 0.0 && kind >= 2) kind = 5 - kind;  // V and W change places
  const double t = acosh1p(fabs(x) - 1.0);
  switch (kind) {
    case 0:
      return sign * cosh(n * t);
    case 1:
      return sign * (sinh((n + 1.0) * t) / sinh(t));
    case 2:
      return sign * (cosh((n + 0.5) * t) / cosh(0.5 * t));
    default:
      return sign * (sinh((n + 0.5) * t) / sinh(0.5 * t));
  }
}

}  // namespace rush::math
