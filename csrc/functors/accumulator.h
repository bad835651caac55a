// accumulator.h: the types that sums and products of many elements are kept in, on every device.
#pragma once

#include "functors/types.h"

namespace rush {

// float for the half types; integers where they wrap around without being undefined.
template <class T>
struct accumulator_t {
  using type = opmath<T>;
};
template <class T>
  requires is_int<T>
struct accumulator_t<T> {
  using type = wrapping<T>;
};
template <class T>
using accumulator = typename accumulator_t<T>::type;

// Of running sums and products along a dim, which round at every element: double for float32, too.
template <class T>
struct running_t : accumulator_t<T> {};
template <>
struct running_t<float> {
  using type = double;
};
template <>
struct running_t<complex<float>> {
  using type = complex<double>;
};
template <class T>
using running = typename running_t<T>::type;

}  // namespace rush
