// stored.h: elements as they lie in memory.
//
// A bool in memory may be any byte: a view of uint8, a foreign buffer, a file. Each byte but 0 is true. C++
// takes it for granted that a bool is 0 or 1 (sums come out too large, and a GPU looks at the last bit), so
// loops read `stored<T>`, and make a T of it.
#pragma once

#include "types.h"

namespace rush {

struct truth {
  u8 byte;
  truth() = default;
  RUSH_FN truth(bool x) : byte(x) {}
  RUSH_FN operator bool() const { return byte != 0; }
};
static_assert(sizeof(truth) == sizeof(bool));

template <>
struct opmath_t<truth> {
  using type = bool;
};

template <class T>
using stored = conditional<is_bool<T>, truth, T>;

}  // namespace rush
