// convert.h: one element from any type to any other, with PyTorch's meaning and no undefined case.
#pragma once

#include <cstdint>
#include <type_traits>

#include "functors/types.h"

namespace rush::RUSH_ISA {

template <class T>
inline constexpr bool is_complex_number = false;
template <class T>
inline constexpr bool is_complex_number<complex<T>> = true;
template <class T>
inline constexpr bool is_short_float = std::is_same_v<T, half> || std::is_same_v<T, bfloat16>;

// Truncates; what does not fit (NaN too) becomes the lowest value, as the x86 instruction has it.
template <class I, class F>
RUSH_FN I truncate(F x) {
  constexpr F end = F(uint64_t(1) << (8 * sizeof(I) - 2)) * 2;
  const bool fits = x >= -end && x < end;
  const F safe = fits ? x : F(0);
  return fits ? static_cast<I>(safe) : static_cast<I>(uint64_t(1) << (8 * sizeof(I) - 1));
}

template <class To, class From>
RUSH_FN To convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (is_complex_number<From>) {
    if constexpr (std::is_same_v<To, bool>)
      return x.re != 0 || x.im != 0;
    else if constexpr (is_complex_number<To>)
      return To(decltype(To::re)(x.re), decltype(To::re)(x.im));
    else
      return convert<To>(x.re);
  } else if constexpr (is_complex_number<To>) {
    return To(convert<decltype(To::re)>(x), 0);
  } else if constexpr (is_short_float<From>) {
    return convert<To>(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (is_short_float<To>) {
    return To(static_cast<float>(x));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // Narrow types take the low bits of a wider result, so that -1.0 becomes 255 as uint8.
    if constexpr (std::is_same_v<To, uint64_t>) {
      const bool large = x >= From(9223372036854775808.0) && x < From(18446744073709551616.0);
      return large ? static_cast<uint64_t>(x) : static_cast<uint64_t>(truncate<int64_t>(x));
    } else if constexpr (std::is_signed_v<To> && sizeof(To) <= 4) {
      return static_cast<To>(truncate<int32_t>(x));
    } else {
      return static_cast<To>(truncate<int64_t>(x));
    }
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace rush::RUSH_ISA
