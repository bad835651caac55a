// special.h: functors of special functions. They compute in double, whatever the type.
#pragma once

#include "math_bessel.h"
#include "math_gamma.h"
#include "math_polynomial.h"

namespace rush::functors {

struct Erfcx {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return static_cast<T>(math::erfcx(static_cast<double>(x)));
  }
};
struct Ndtr {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return static_cast<T>(math::ndtr(static_cast<double>(x)));
  }
};
struct LogNdtr {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return static_cast<T>(math::log_ndtr(static_cast<double>(x)));
  }
};
struct Ndtri {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return static_cast<T>(math::ndtri(static_cast<double>(x)));
  }
};
struct AiryAi {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return static_cast<T>(math::airy_ai(static_cast<double>(x)));
  }
};

// The kinds are those of ops/pointwise/special.cpp.
enum BesselKind { kBesselJ, kBesselY, kBesselK, kBesselKScaled, kBesselIScaled, kBesselSpherical };
template <class T>
struct Bessel {
  double kind, order;
  RUSH_FN T operator()(T x) const {
    const int n = static_cast<int>(order);
    const double a = static_cast<double>(x);
    switch (static_cast<int>(kind)) {
      case kBesselJ:
        return static_cast<T>(math::bessel_j(n, a));
      case kBesselY:
        return static_cast<T>(math::bessel_y(n, a));
      case kBesselK:
        return static_cast<T>(math::bessel_k(n, a, false));
      case kBesselKScaled:
        return static_cast<T>(math::bessel_k(n, a, true));
      case kBesselSpherical:
        return static_cast<T>(a == 0.0 ? 1.0 : math::isinf(a) ? 0.0 : math::sin(a) / a);
      default:
        return static_cast<T>(math::bessel_i_scaled(n, a));
    }
  }
};

struct Zeta {
  template <class T>
  RUSH_FN T operator()(T s, T q) const {
    return static_cast<T>(math::zeta(static_cast<double>(s), static_cast<double>(q)));
  }
};
struct Igamma {
  template <class T>
  RUSH_FN T operator()(T a, T x) const {
    return static_cast<T>(
        math::igamma_parts<is_same<T, float>>(static_cast<double>(a), static_cast<double>(x)).p);
  }
};
struct Igammac {
  template <class T>
  RUSH_FN T operator()(T a, T x) const {
    return static_cast<T>(
        math::igamma_parts<is_same<T, float>>(static_cast<double>(a), static_cast<double>(x)).q);
  }
};

// Orthogonal polynomials of degree n (0 for a negative one), by their recurrences; Chebyshev's
// inside [-1, 1] by angles, and all of very large degree without a loop.
enum PolynomialKind {
  kChebyshevT,
  kChebyshevU,
  kChebyshevV,
  kChebyshevW,
  kHermiteH,
  kHermiteHe,
  kLaguerreL,
  kLegendreP
};
template <class T>
struct Polynomial {
  double kind, shifted;
  RUSH_FN T operator()(T given, T degree) const {
    const int k = static_cast<int>(kind);
    const double x0 = static_cast<double>(given), x = shifted != 0.0 ? (x0 + x0) - 1.0 : x0;
    if (!(degree > T(-1))) return T(0);  // a degree is cut to a whole number, -0.5 to 0
    const double n = math::floor(math::fmax(static_cast<double>(degree), 0.0));
    if ((k == kHermiteH || k == kHermiteHe) && n > (is_same<T, float> ? 128.0 : 512.0))
      return limits<T>::nan;
    if (n == 0.0) return T(1);
    if (k <= kChebyshevW && n > 8.0 && math::fabs(x) <= 1.0)
      return static_cast<T>(by_angle(k, x, n));
    if (n >= math::kLargeDegree) {
      if (k == kLegendreP) return static_cast<T>(math::legendre_large(n, x));
      if (k == kLaguerreL) return static_cast<T>(math::laguerre_large(n, x));
      return static_cast<T>(math::chebyshev_outside(k, n, x));
    }
    if (k == kLaguerreL) return static_cast<T>(laguerre(n, x));
    if (k == kLegendreP && math::fabs(x) > 0.5) return static_cast<T>(legendre(n, x));
    if (k <= kChebyshevW && n > 64.0) return static_cast<T>(math::chebyshev_outside(k, n, x));
    double before = 1.0, here = first(k, x);
    for (double j = 1.0; j < n; j += 1.0) {
      const double next = step(k, x, j, before, here);
      before = here;
      here = next;
      if (!math::isfinite(here)) break;
    }
    return static_cast<T>(here);
  }

 private:
  // Laguerre's and, near 1, Legendre's by their differences: neighbours are nearly equal there, and
  // the plain recurrences lose n^2 roundings.
  RUSH_FN static double laguerre(double n, double x) {
    double step = -x, here = 1.0 - x;
    for (double j = 1.0; j < n && math::isfinite(here); j += 1.0) {
      step = (j * step - x * here) / (j + 1.0);
      here += step;
    }
    return here;
  }
  RUSH_FN static double legendre(double n, double x) {
    const double a = math::fabs(x), d = a - 1.0;
    double step = d, here = a;
    for (double j = 1.0; j < n && math::isfinite(here); j += 1.0) {
      step = ((j + j + 1.0) * d * here + j * step) / (j + 1.0);
      here += step;
    }
    return x < 0.0 && math::fmod(n, 2.0) != 0.0 ? -here : here;
  }
  RUSH_FN static double first(int k, double x) {
    switch (k) {
      case kChebyshevU:
        return x + x;
      case kChebyshevV:
        return x + x - 1.0;
      case kChebyshevW:
        return x + x + 1.0;
      case kHermiteH:
        return x + x;
      default:
        return x;
    }
  }
  RUSH_FN static double step(int k, double x, double j, double before, double here) {
    switch (k) {
      case kHermiteH:
        return 2.0 * (x * here - j * before);
      case kHermiteHe:
        return x * here - j * before;
      case kLegendreP:
        return ((j + j + 1.0) * x * here - j * before) / (j + 1.0);
      default:
        return (x + x) * here - before;
    }
  }
  RUSH_FN static double by_angle(int k, double x, double n) {
    const bool even = math::fmod(n, 2.0) == 0.0;
    if (x == 1.0) return k == kChebyshevU ? n + 1.0 : k == kChebyshevW ? n + n + 1.0 : 1.0;
    if (x == -1.0) {
      const double size = k == kChebyshevU ? n + 1.0 : k == kChebyshevV ? n + n + 1.0 : 1.0;
      return even ? size : -size;
    }
    const double t = math::acos(x);
    switch (k) {
      case kChebyshevT:
        return math::cos(n * t);
      case kChebyshevU:
        return math::sin((n + 1.0) * t) / math::sin(t);
      case kChebyshevV:
        return math::cos((n + 0.5) * t) / math::cos(0.5 * t);
      default:
        return math::sin((n + 0.5) * t) / math::sin(0.5 * t);
    }
  }
};

}  // namespace rush::functors
