// fits.h: can a number be written into a tensor of some type?
#pragma once

#include <cmath>

#include "core/scalar.h"

namespace rush {

// Raises for a complex number and a real type, and for a number beyond the type's range. Fractions
// are cut off, infinities and NaN are for floats only, and unsigned types take negative ints modulo
// their size, as in PyTorch.
inline void check_fits(std::string_view op, DType t, const Scalar& s) {
  if (t == DType::Bool || is_complex(t) || s.is_bool()) return;
  check_dtype(!s.is_complex(), op, "a complex value cannot be written into a ", t, " tensor");
  if (t == DType::Float64) return;
  dispatch_storage(op, t, [&]<typename T>() {
    if constexpr (is_int<T>) {
      const double hi = double(limits<T>::max),
                   lo = is_signed_int<T> ? double(limits<T>::lowest) : (s.is_integer() ? -hi : 0);
      const bool fits =
          s.is_integer() && sizeof(T) == 8 ? true : s.to_double() >= lo && s.to_double() <= hi;
      check(fits, ErrorKind::Runtime, op, "the value ", s, " is out of range for ", t);
    } else if constexpr (!is_complex_v<T>) {
      const double v = s.to_double();
      const double hi = []() -> double {
        if constexpr (is_float8_v<T>) return T::max;
        return std::is_same_v<T, half>       ? 65504.0
               : std::is_same_v<T, bfloat16> ? 0x1.fep+127
                                             : double(limits<float>::max);
      }();
      // e8m0fnu has neither zero nor negative numbers, but takes integers for what they round to.
      const double lo = [&]() -> double {
        if constexpr (is_float8_v<T>) return T::lowest < 0 || !s.is_integer() ? T::lowest : -hi;
        return -hi;
      }();
      // Those without infinities would make the largest number, or NaN, of one.
      constexpr bool infinite = [] {
        if constexpr (is_float8_v<T>) return T::kHasInfinity;
        return true;
      }();
      const bool special = std::isnan(v) || (infinite && std::isinf(v));
      check(special || (v >= lo && v <= hi), ErrorKind::Runtime, op, "the value ", s,
            " is out of range for ", t);
    }
  });
}

// The same for a whole tensor of that number, where too large a float becomes infinite.
inline void check_fill(std::string_view op, DType t, const Scalar& s) {
  if (!is_floating(t) || is_float8(t) || s.is_complex()) check_fits(op, t, s);
}

}  // namespace rush
