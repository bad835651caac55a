// scalar.h: a number from the user's program: a bool, an integer, a float or a complex, with
// Python's meaning.
#pragma once

#include <cstdint>
#include <ostream>

#include "core/dtype.h"

namespace rush {

class Scalar {
 public:
  constexpr Scalar() : i_(0), category_(Category::Integer) {}
  constexpr Scalar(bool v) : i_(v), category_(Category::Bool) {}
  constexpr Scalar(int v) : i_(v), category_(Category::Integer) {}
  constexpr Scalar(long v) : i_(v), category_(Category::Integer) {}
  constexpr Scalar(long long v) : i_(v), category_(Category::Integer) {}
  constexpr Scalar(float v) : d_(v), category_(Category::Floating) {}
  constexpr Scalar(double v) : d_(v), category_(Category::Floating) {}
  constexpr Scalar(complex<double> v) : d_(v.re), im_(v.im), category_(Category::Complex) {}

  constexpr Category category() const { return category_; }
  constexpr bool is_bool() const { return category_ == Category::Bool; }
  constexpr bool is_integer() const { return category_ == Category::Integer; }
  constexpr bool is_floating() const { return category_ == Category::Floating; }
  constexpr bool is_complex() const { return category_ == Category::Complex; }

  // The value as T, converted as C++ converts; complex to real keeps the real part.
  template <class T>
  constexpr T to() const {
    if constexpr (is_complex_v<T>) {
      using R = decltype(T::re);
      return is_exact() ? T{R(i_), R(0)} : T{R(d_), R(im_)};
    } else if constexpr (std::is_same_v<T, bool>) {
      return is_exact() ? i_ != 0 : d_ != 0 || im_ != 0;
    } else if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) {
      return T(is_exact() ? float(i_) : float(d_));
    } else {
      return is_exact() ? T(i_) : T(d_);
    }
  }
  constexpr double to_double() const { return to<double>(); }
  constexpr int64_t to_int() const { return to<int64_t>(); }
  constexpr bool equals(double v) const { return im_part() == 0 && to_double() == v; }
  constexpr Scalar operator-() const {
    return is_complex()    ? Scalar(complex<double>{-d_, -im_})
           : is_floating() ? Scalar(-d_)
                           : Scalar((long)(0 - (unsigned long)i_));
  }

  // The dtype this number takes when nothing else decides.
  DType default_type() const {
    switch (category_) {
      case Category::Bool:
        return DType::Bool;
      case Category::Integer:
        return DType::Int64;
      case Category::Floating:
        return default_dtype();
      default:
        return to_complex(default_dtype());
    }
  }

 private:
  constexpr bool is_exact() const { return category_ <= Category::Integer; }
  constexpr double im_part() const { return is_complex() ? im_ : 0.0; }

  union {
    int64_t i_;
    double d_;
  };
  double im_ = 0;
  Category category_;
};

inline std::ostream& operator<<(std::ostream& os, const Scalar& s) {
  if (s.is_bool()) return os << (s.to<bool>() ? "True" : "False");
  if (s.is_integer()) return os << s.to_int();
  if (s.is_floating()) return os << s.to_double();
  const auto z = s.to<complex<double>>();
  return os << z.re << (z.im < 0 ? "-" : "+") << (z.im < 0 ? -z.im : z.im) << "j";
}

}  // namespace rush
