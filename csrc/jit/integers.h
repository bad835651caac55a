// integers.h: division of ints as Python does it, for builtins and for the machine's own steps.
#pragma once

#include "jit/builtin_rows.h"

namespace rush::jit::integers {

[[noreturn, gnu::cold, gnu::noinline]] inline void by_zero() {
  raise("ZeroDivisionError", ErrorKind::Value, "division by zero");
}
[[noreturn, gnu::cold, gnu::noinline]] inline void overflow() {
  raise("OverflowError", ErrorKind::Overflow,
        "an int of a program has 64 bits, and this result does not fit");
}
// Both of 31 bits: their quotient takes a processor a fraction of the time.
inline bool are_small(int64_t x, int64_t y) { return (uint64_t(x) | uint64_t(y)) >> 31 == 0; }

inline int64_t floordiv(int64_t x, int64_t y) {
  if (y == 0) by_zero();
  if (are_small(x, y)) [[likely]]
    return uint32_t(x) / uint32_t(y);
  if (y == -1) {
    if (x == INT64_MIN) overflow();
    return -x;
  }
  const int64_t q = x / y;
  return q - (x % y != 0 && (x < 0) != (y < 0));
}
inline int64_t mod(int64_t x, int64_t y) {
  if (y == 0) by_zero();
  if (are_small(x, y)) [[likely]]
    return uint32_t(x) % uint32_t(y);
  if (y == -1) return 0;
  const int64_t r = x % y;
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
inline double divide(double x, double y) {
  if (y == 0) by_zero();
  return x / y;
}

}  // namespace rush::jit::integers
