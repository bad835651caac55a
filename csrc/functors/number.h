// number.h: a number that a user gave beside the tensors, on its way into a functor.
#pragma once

#include "types.h"

namespace rush {

// As exact as the user gave it; it converts to whatever the functor holds.
struct Number {
  double re, im;
  i64 whole;
  bool exact;  // `whole` holds it

  template <class T>
    requires(is_integral_v<T> || is_float<T> || is_complex_v<T>)
  RUSH_FN constexpr operator T() const {
    if constexpr (is_complex_v<T>) {
      using R = real_of<T>;
      return exact ? T(R(whole), R(0)) : T(R(re), R(im));
    } else if constexpr (is_bool<T>) {
      return exact ? whole != 0 : re != 0 || im != 0;
    } else {
      return exact ? static_cast<T>(whole) : static_cast<T>(re);
    }
  }
};

}  // namespace rush
