// compare.h: comparisons and predicates. All return bool.
#pragma once

#include "complex.h"

namespace rush::functors {

struct Eq {
  template <class T>
  RUSH_FN bool operator()(T a, T b) const {
    return a == b;
  }
};
struct Ne {
  template <class T>
  RUSH_FN bool operator()(T a, T b) const {
    return a != b;
  }
};
struct Lt {
  template <class T>
  RUSH_FN bool operator()(T a, T b) const {
    return a < b;
  }
};
struct Le {
  template <class T>
  RUSH_FN bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct Gt {
  template <class T>
  RUSH_FN bool operator()(T a, T b) const {
    return a > b;
  }
};
struct Ge {
  template <class T>
  RUSH_FN bool operator()(T a, T b) const {
    return a >= b;
  }
};

// What counts as true: anything but zero, nan included.
template <class T>
RUSH_FN bool truth(T x) {
  if constexpr (is_complex_v<T>)
    return x.re != 0 || x.im != 0;
  else
    return x != T(0);
}
struct LogicalNot {
  template <class T>
  RUSH_FN bool operator()(T x) const {
    return !truth(x);
  }
};
struct LogicalAnd {
  template <class T>
  RUSH_FN bool operator()(T a, T b) const {
    return truth(a) & truth(b);
  }
};
struct LogicalOr {
  template <class T>
  RUSH_FN bool operator()(T a, T b) const {
    return truth(a) | truth(b);
  }
};
struct LogicalXor {
  template <class T>
  RUSH_FN bool operator()(T a, T b) const {
    return truth(a) != truth(b);
  }
};

struct IsNan {
  template <class T>
  RUSH_FN bool operator()(T x) const {
    return math::isnan(x);
  }
};
struct IsInf {
  template <class T>
  RUSH_FN bool operator()(T x) const {
    return math::isinf(x);
  }
};
struct IsFinite {
  template <class T>
  RUSH_FN bool operator()(T x) const {
    return math::isfinite(x);
  }
};
struct IsPosInf {
  template <class T>
  RUSH_FN bool operator()(T x) const {
    if constexpr (is_float<T>)
      return x == limits<T>::inf;
    else
      return false;
  }
};
struct IsNegInf {
  template <class T>
  RUSH_FN bool operator()(T x) const {
    if constexpr (is_float<T>)
      return x == -limits<T>::inf;
    else
      return false;
  }
};
struct IsReal {
  template <class T>
  RUSH_FN bool operator()(T x) const {
    if constexpr (is_complex_v<T>)
      return x.im == 0;
    else
      return true;
  }
};
struct SignBit {
  template <class T>
  RUSH_FN bool operator()(T x) const {
    if constexpr (is_bool<T>)
      return false;
    else
      return math::signbit(x);
  }
};

// |a - b| <= atol + rtol |b|; equal infinities are close, others are not.
template <class T>
struct IsClose {
  double rtol, atol;
  bool equal_nan;
  RUSH_FN bool operator()(T a, T b) const {
    if constexpr (is_integral_v<T>) {
      const double x = static_cast<double>(a), y = static_cast<double>(b);
      return a == b || math::fabs(x - y) <= atol + rtol * math::fabs(y);
    } else if constexpr (is_complex_v<T>) {
      using R = real_of<T>;
      const bool both_nan = equal_nan && math::isnan(a) && math::isnan(b);
      const R gap = math::abs(a - b);
      const R room = static_cast<R>(atol) + math::abs(complex<R>(b) * static_cast<R>(rtol));
      return a == b || both_nan || (math::isfinite(gap) && gap <= room);
    } else {
      const bool both_nan = equal_nan & math::isnan(a) & math::isnan(b);
      const T gap = math::fabs(a - b);
      const T room = static_cast<T>(atol) + math::fabs(static_cast<T>(rtol) * b);
      return (a == b) | both_nan | (math::isfinite(gap) & (gap <= room));
    }
  }
};

}  // namespace rush::functors
