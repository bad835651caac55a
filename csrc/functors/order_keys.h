// order_keys.h: numbers, as they are stored, as unsigned keys with the same order, so that sorting and
// selecting are integer work.
//
// -0 and 0 get one key and all NaNs the largest, as PyTorch orders them.
#pragma once

#include "stored.h"
#include "types.h"

namespace rush {

template <class T>
using KeyOf = unsigned_of<T>;

// Bits of what a float is stored in; integers are their own.
template <class T>
RUSH_FN KeyOf<T> bits_of(T v) {
  return bit_cast<KeyOf<T>>(v);
}

template <class T>
inline constexpr bool is_float_like = is_float<T> || is_same<T, half> || is_same<T, bfloat16>;

template <class T>
inline constexpr KeyOf<T> kSignBit = KeyOf<T>(KeyOf<T>(1) << (8 * sizeof(T) - 1));

// The bits of infinity: larger magnitudes are NaN.
template <class T>
inline constexpr KeyOf<T> kInfBits = is_same<T, half>       ? KeyOf<T>(0x7c00)
                                     : is_same<T, bfloat16> ? KeyOf<T>(0x7f80)
                                     : sizeof(T) == 4       ? KeyOf<T>(0x7f800000u)
                                                            : KeyOf<T>(0x7ff0000000000000ull);

template <class T>
RUSH_FN KeyOf<T> order_key(T v) {
  using K = KeyOf<T>;
  if constexpr (is_float_like<T>) {
    const K b = bits_of(v), magnitude = K(b & K(~kSignBit<T>));
    const K flip = b & kSignBit<T> ? K(~K(0)) : kSignBit<T>;
    const K key = magnitude == 0 ? kSignBit<T> : K(b ^ flip);
    return magnitude > kInfBits<T> ? K(~K(0)) : key;
  } else if constexpr (is_same<T, truth>) {
    return v;
  } else if constexpr (is_signed_int<T>) {
    return K(K(v) ^ kSignBit<T>);
  } else {
    return K(v);
  }
}

// The value of a key; of the many behind the keys of zero and NaN, one.
template <class T>
RUSH_FN T value_of_key(KeyOf<T> key) {
  using K = KeyOf<T>;
  if constexpr (is_float_like<T>)
    return bit_cast<T>(K(key & kSignBit<T> ? key ^ kSignBit<T> : ~key));
  else if constexpr (is_same<T, truth>)
    return key != 0;
  else if constexpr (is_signed_int<T>)
    return T(key ^ kSignBit<T>);
  else
    return T(key);
}
// Is a key the key of one value only?
template <class T>
RUSH_FN bool is_plain_key(KeyOf<T> key) {
  if constexpr (is_float_like<T>)
    return key != kSignBit<T> && key != KeyOf<T>(~KeyOf<T>(0));
  else
    return true;
}

template <class T>
RUSH_FN bool is_nan_value(T v) {
  if constexpr (is_float_like<T>)
    return KeyOf<T>(bits_of(v) & KeyOf<T>(~kSignBit<T>)) > kInfBits<T>;
  else
    return false;
}

}  // namespace rush
