// convert.h: one element from any type to any other, with PyTorch's meaning and no undefined case.
#pragma once

#include "float8.h"
#include "stored.h"
#include "types.h"

namespace rush {

template <class T>
inline constexpr bool is_short_float = is_same<T, half> || is_same<T, bfloat16> || is_float8_v<T>;

// Truncates; what does not fit (NaN too) becomes the lowest value, as the x86 instruction has it.
template <class I, class F>
RUSH_FN I truncate(F x) {
  constexpr F end = F(u64(1) << (8 * sizeof(I) - 2)) * 2;
  const bool fits = x >= -end && x < end;
  const F safe = fits ? x : F(0);
  return fits ? static_cast<I>(safe) : static_cast<I>(u64(1) << (8 * sizeof(I) - 1));
}

template <class To, class From>
RUSH_FN To convert(From x) {
  if constexpr (is_same<To, From>) {
    return x;
  } else if constexpr (is_same<From, truth>) {
    return convert<To>(static_cast<bool>(x));
  } else if constexpr (is_same<To, truth>) {
    return convert<bool>(x);
  } else if constexpr (is_complex_v<From>) {
    if constexpr (is_bool<To>)
      return x.re != 0 || x.im != 0;
    else if constexpr (is_complex_v<To>)
      return To(real_of<To>(x.re), real_of<To>(x.im));
    else
      return convert<To>(x.re);
  } else if constexpr (is_complex_v<To>) {
    return To(convert<real_of<To>>(x), real_of<To>(0));
  } else if constexpr (is_short_float<From>) {
    return convert<To>(static_cast<float>(x));
  } else if constexpr (is_bool<To>) {
    return x != From(0);
  } else if constexpr (is_short_float<To>) {
    return To(static_cast<float>(x));
  } else if constexpr (is_float<From> && is_int<To>) {
    // Narrow types take the low bits of a wider result, so that -1.0 becomes 255 as uint8.
    if constexpr (is_same<To, u64>) {
      const bool large = x >= From(9223372036854775808.0) && x < From(18446744073709551616.0);
      return large ? static_cast<u64>(x) : static_cast<u64>(truncate<i64>(x));
    } else if constexpr (is_signed_int<To> && sizeof(To) <= 4) {
      return static_cast<To>(truncate<i32>(x));
    } else {
      return static_cast<To>(truncate<i64>(x));
    }
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace rush
