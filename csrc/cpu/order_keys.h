// order_keys.h: numbers as unsigned keys with the same order, so that sorting and selecting are
// integer work.
//
// -0 and 0 get one key and all NaNs the largest, as PyTorch orders them. A key paired with its
// position, the position in the lower half of one wide integer, makes every element distinct: plain
// integer order is then the stable order.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/dtype.h"

namespace rush {

template <class T>
using KeyOf = unsigned_of<T>;

// Bits of what a float is stored in; integers are their own.
template <class T>
inline KeyOf<T> bits_of(T v) {
  return __builtin_bit_cast(KeyOf<T>, v);
}

template <class T>
inline constexpr bool is_float_like =
    is_float<T> || std::is_same_v<T, half> || std::is_same_v<T, bfloat16>;

template <class T>
inline constexpr KeyOf<T> kSignBit = KeyOf<T>(KeyOf<T>(1) << (8 * sizeof(T) - 1));

// The bits of infinity: larger magnitudes are NaN.
template <class T>
inline constexpr KeyOf<T> kInfBits = std::is_same_v<T, half>       ? KeyOf<T>(0x7c00)
                                     : std::is_same_v<T, bfloat16> ? KeyOf<T>(0x7f80)
                                     : sizeof(T) == 4 ? KeyOf<T>(0x7f800000u)
                                                      : KeyOf<T>(0x7ff0000000000000ull);

template <class T>
inline KeyOf<T> order_key(T v) {
  using K = KeyOf<T>;
  if constexpr (is_float_like<T>) {
    const K b = bits_of(v), magnitude = K(b & K(~kSignBit<T>));
    const K flip = b & kSignBit<T> ? K(~K(0)) : kSignBit<T>;
    const K key = magnitude == 0 ? kSignBit<T> : K(b ^ flip);
    return magnitude > kInfBits<T> ? K(~K(0)) : key;
  } else if constexpr (std::is_same_v<T, bool>) {
    return __builtin_bit_cast(uint8_t, v) != 0;
  } else if constexpr (std::is_signed_v<T>) {
    return K(K(v) ^ kSignBit<T>);
  } else {
    return K(v);
  }
}

// The value of a key; of the many behind the keys of zero and NaN, one.
template <class T>
inline T value_of_key(KeyOf<T> key) {
  using K = KeyOf<T>;
  if constexpr (is_float_like<T>)
    return __builtin_bit_cast(T, K(key & kSignBit<T> ? key ^ kSignBit<T> : ~key));
  else if constexpr (std::is_same_v<T, bool>)
    return key != 0;
  else if constexpr (std::is_signed_v<T>)
    return T(key ^ kSignBit<T>);
  else
    return T(key);
}
// Is a key the key of one value only?
template <class T>
inline bool is_plain_key(KeyOf<T> key) {
  if constexpr (is_float_like<T>)
    return key != kSignBit<T> && key != KeyOf<T>(~KeyOf<T>(0));
  else
    return true;
}

template <class T>
inline bool is_nan_value(T v) {
  if constexpr (is_float_like<T>)
    return KeyOf<T>(bits_of(v) & KeyOf<T>(~kSignBit<T>)) > kInfBits<T>;
  else
    return false;
}

// Key in the upper half, position in the lower.
template <class T>
using Packed = std::conditional_t<sizeof(T) <= 4, uint64_t, unsigned __int128>;
template <class T>
inline constexpr int kPositionBits = sizeof(Packed<T>) * 4;

template <class T>
inline Packed<T> pack(KeyOf<T> key, int64_t position) {
  return Packed<T>(key) << kPositionBits<T> | Packed<T>(uint64_t(position));
}
template <class T>
inline KeyOf<T> key_part(Packed<T> p) {
  return KeyOf<T>(p >> kPositionBits<T>);
}
template <class T>
inline int64_t position_part(Packed<T> p) {
  if constexpr (sizeof(Packed<T>) == 8)
    return int64_t(uint32_t(p));
  else
    return int64_t(uint64_t(p));
}
// Rows longer than this cannot be packed.
template <class T>
inline constexpr int64_t kMaxPacked = sizeof(Packed<T>) == 8 ? int64_t(UINT32_MAX) : INT64_MAX;

}  // namespace rush
