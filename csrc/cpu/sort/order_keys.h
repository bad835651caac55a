// order_keys.h: keys (functors/order_keys.h) paired with positions.
//
// The position in the lower half of one wide integer makes every element distinct: plain integer
// order is then the stable order.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/dtype.h"
#include "functors/order_keys.h"

namespace rush {

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
