// reduce_vector.h: vectors of the widest kind, and how their lanes meet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "cpu/kernels/vector_bytes.h"
#include "functors/math.h"

namespace rush::RUSH_ISA {

template <class T, int bytes = kVectorBytes>
struct Vector {
  typedef T type __attribute__((vector_size(bytes)));
  static constexpr int width = bytes / sizeof(T);
};

template <class T, int bytes = kVectorBytes>
RUSH_FN typename Vector<T, bytes>::type load(const T* p) {
  typename Vector<T, bytes>::type v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

template <int bytes>
struct LaneInt;
template <>
struct LaneInt<1> {
  using type = int8_t;
};
template <>
struct LaneInt<4> {
  using type = int32_t;
};
template <>
struct LaneInt<8> {
  using type = int64_t;
};

// 0, 1, 2, ... in integers as wide as T.
template <class T>
struct LaneNumbers {
  using Lane = typename LaneInt<sizeof(T)>::type;
  Lane lane[Vector<T>::width];
  constexpr LaneNumbers() : lane() {
    for (int i = 0; i < Vector<T>::width; ++i) lane[i] = Lane(i);
  }
};
template <class T>
inline constexpr LaneNumbers<T> kLaneNumbers;

// The last `rest` elements before `end`, in the upper lanes of a vector whose others are blank. A
// whole vector lies before `end`.
template <class T, int bytes>
RUSH_FN typename Vector<T, bytes>::type load_rest(const T* end, int64_t rest, T blank) {
  using Lane = typename LaneInt<sizeof(T)>::type;
  constexpr int width = Vector<T, bytes>::width;
  const auto number = load<Lane, bytes>(kLaneNumbers<T>.lane);
  const auto others = typename Vector<T, bytes>::type{} + blank;
  return number >= Lane(width - rest) ? load<T, bytes>(end - width) : others;
}

// All lanes of a vector into one, by halves.
template <class Op, int bytes>
RUSH_FN typename Op::Element across(typename Vector<typename Op::Element, bytes>::type v) {
  using T = typename Op::Element;
  if constexpr (bytes > 16) {
    typename Vector<T, bytes / 2>::type halves[2];
    __builtin_memcpy(halves, &v, sizeof v);
    return across<Op, bytes / 2>(Op::join(halves[0], halves[1]));
  } else {
    constexpr int width = bytes / int(sizeof(T));
    T parts[width];
    __builtin_memcpy(parts, &v, sizeof v);
    for (int half = width / 2; half > 0; half /= 2) {
      for (int k = 0; k < half; ++k) parts[k] = Op::join(parts[k], parts[k + half]);
    }
    return parts[0];
  }
}

// Lane i of half of what a and b hold: runs of `run` lanes alternately from a and b, taken from the
// lower or the upper halves of their double runs.
template <int width, int run, bool upper>
constexpr int source_lane(int i) {
  const int at = i % (2 * run);
  return i - at + at % run + (upper ? run : 0) + (at < run ? 0 : width);
}
template <int width, int run, bool upper, class V, size_t... i>
RUSH_FN V halves_of(V a, V b, std::index_sequence<i...>) {
  return __builtin_shufflevector(a, b, source_lane<width, run, upper>(int(i))...);
}

// As many vectors as one has lanes: lane k of v[0] becomes all of v[k]'s lanes in one.
template <class Op, int width, int run = width / 2, class V>
RUSH_FN void all_across(V* v) {
  constexpr std::make_index_sequence<size_t(width)> lanes;
  for (int k = 0; k < run; ++k)
    v[k] = Op::join(halves_of<width, run, false>(v[k], v[k + run], lanes),
                    halves_of<width, run, true>(v[k], v[k + run], lanes));
  if constexpr (run > 1) all_across<Op, width, run / 2>(v);
}

}  // namespace rush::RUSH_ISA
