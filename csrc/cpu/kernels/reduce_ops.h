// reduce_ops.h: what a reduction does with an element, for scalars and vectors alike.
//
// `step` takes the lane so far and an element, `join` two lanes; a lane lives for a short block
// only, then it is folded into the acc, which is wider: double for float32, a sum with its error
// for float64. `light`: it does as little as adding.
#pragma once

#include <cstdint>
#include <type_traits>

#include "functors/math.h"

namespace rush::RUSH_ISA {

// A sum and what rounding took from it.
struct Exact {
  double sum, error;
  void add(double x) {
    const double total = sum + x;
    const double back = total - sum;
    error += (sum - (total - back)) + (x - back);
    sum = total;
  }
  // Infinities leave a NaN in the error, which is not theirs.
  double value() const { return error - error == 0 ? sum + error : sum; }
};

template <class T>
struct WideSum {  // int64: wraps
  T sum;
  void add(T x) { sum = T(uint64_t(sum) + uint64_t(x)); }
  T value() const { return sum; }
};
template <>
struct WideSum<float> {
  double sum;
  void add(double x) { sum += x; }
  double value() const { return sum; }
};
template <>
struct WideSum<double> : Exact {};

template <class V>
RUSH_FN V absolute(V x) {
  return x < 0 ? -x : x;
}

template <class T>
struct SumFold {
  using Element = T;
  using Acc = WideSum<T>;
  static constexpr bool light = true;
  static constexpr T blank = 0;
  static constexpr Acc blank_acc{};
  template <class V>
  RUSH_FN static V step(V lane, V x) {
    return lane + x;
  }
  template <class V>
  RUSH_FN static V join(V a, V b) {
    return a + b;
  }
  static void fold(Acc& acc, T lane) { acc.add(lane); }
  static void merge(Acc& acc, const Acc& other) {
    acc.add(other.sum);
    if constexpr (std::is_same_v<T, double>) acc.error += other.error;
  }
  static T finish(const Acc& acc, double, double) { return T(acc.value()); }
};
template <>
inline void SumFold<int64_t>::fold(Acc& acc, int64_t lane) {
  acc.add(lane);
}

template <class T>
struct MeanFold : SumFold<T> {
  static T finish(const typename SumFold<T>::Acc& acc, double count, double) {
    return T(acc.value() / count);
  }
};

template <class T>
struct Norm1Fold : SumFold<T> {
  template <class V>
  RUSH_FN static V step(V lane, V x) {
    return lane + absolute(x);
  }
};

template <class T>
struct Norm2Fold : SumFold<T> {
  template <class V>
  RUSH_FN static V step(V lane, V x) {
    return lane + x * x;
  }
  static T finish(const typename SumFold<T>::Acc& acc, double, double) {
    return T(math::sqrt(double(acc.value())));
  }
};

template <class T>
struct ProdFold {
  using Element = T;
  using Acc = std::conditional_t<std::is_same_v<T, float>, double, T>;
  static constexpr bool light = true;
  static constexpr T blank = 1;
  static constexpr Acc blank_acc = 1;
  template <class V>
  RUSH_FN static V step(V lane, V x) {
    return lane * x;
  }
  template <class V>
  RUSH_FN static V join(V a, V b) {
    return a * b;
  }
  static void fold(Acc& acc, T lane) { acc *= lane; }
  static void merge(Acc& acc, const Acc& other) { acc *= other; }
  static T finish(const Acc& acc, double, double) { return T(acc); }
};

// Signed overflow wraps: products and sums of int64 run over the bits.
using Bits = uint64_t;

template <class T>
inline constexpr T kHighest = limits<T>::max;
template <>
inline constexpr float kHighest<float> = limits<float>::inf;
template <>
inline constexpr double kHighest<double> = limits<double>::inf;
template <class T>
inline constexpr T kLowest = limits<T>::lowest;
template <>
inline constexpr float kLowest<float> = -limits<float>::inf;
template <>
inline constexpr double kLowest<double> = -limits<double>::inf;

template <class T, bool largest, bool magnitude = false>
struct ExtremeFold {  // NaN wins
  using Element = T;
  using Acc = T;
  static constexpr bool light = false;
  static constexpr T blank = largest ? (magnitude ? T(0) : kLowest<T>) : kHighest<T>;
  static constexpr Acc blank_acc = blank;
  template <class V>
  RUSH_FN static V join(V a, V b) {
    if constexpr (largest)
      return ((b > a) | (b != b)) ? b : a;
    else
      return ((b < a) | (b != b)) ? b : a;
  }
  template <class V>
  RUSH_FN static V step(V lane, V x) {
    if constexpr (magnitude)
      return join(lane, absolute(x));
    else
      return join(lane, x);
  }
  static void fold(Acc& acc, T lane) { acc = join(acc, lane); }
  static void merge(Acc& acc, const Acc& other) { acc = join(acc, other); }
  static T finish(const Acc& acc, double, double) { return acc; }
};

template <bool any>
struct TruthFold {  // over bytes: is one of them, or the least of them, not 0?
  using Element = uint8_t;
  using Acc = uint8_t;
  static constexpr bool light = false;
  static constexpr uint8_t blank = any ? 0 : 1;
  static constexpr Acc blank_acc = blank;
  template <class V>
  RUSH_FN static V step(V lane, V x) {
    if constexpr (any)
      return lane | x;
    else
      return x < lane ? x : lane;
  }
  template <class V>
  RUSH_FN static V join(V a, V b) {
    return step(a, b);
  }
  static void fold(Acc& acc, uint8_t lane) { acc = step(acc, lane); }
  static void merge(Acc& acc, const Acc& other) { acc = step(acc, other); }
  static uint8_t finish(const Acc& acc, double, double) { return acc != 0; }
};

}  // namespace rush::RUSH_ISA
