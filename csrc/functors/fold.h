// fold.h: reductions as formulas, for every device. Rows name them: `kernel: fold LogSumExp floating`.
//
// - T is the type of an element, Acc the running result, at most kMostAcc bytes, copied as bytes.
// - blank() is the result of no elements, step takes one more (the position is for folds of
//   cuda/kernels/reduce.cu that are not shared), merge joins two running results, and finish gives
//   the value; count is the number of elements.
// - chunk, which may be missing, takes several elements for less than one by one, on GPUs.
// - E is float or double on GPUs. The CPU folds in double, unless CpuFold (cpu/kernels/reduce_shared.h)
//   has faster loops for it.
#pragma once

#include "binary.h"

#ifdef RUSH_DEVICE
#define RUSH_UNROLL _Pragma("unroll")
#else
#define RUSH_UNROLL
#endif

namespace rush::folds {

inline constexpr int kMostAcc = 24;

// The sum of exponentials beside the largest exponent.
template <class E>
struct Exponentials {
  E top, sum;
};
template <class E>
struct LogSumExp {
  using T = E;
  using Acc = Exponentials<E>;
  static constexpr RUSH_FN Acc blank() { return {-limits<E>::inf, E(0)}; }
  static RUSH_FN void merge(Acc& acc, const Acc& x) {
    const E top = functors::Maximum{}(acc.top, x.top);
    // An infinity minus itself is no number: then the sum alone is right.
    const E mine = acc.top == top ? E(1) : math::exp(acc.top - top);
    const E theirs = x.top == top ? E(1) : math::exp(x.top - top);
    acc = {top, acc.sum * mine + x.sum * theirs};
  }
  static RUSH_FN void step(Acc& acc, T x, i64) { merge(acc, {x, E(1)}); }
  // A NaN is not seen by the maximum, and spoils the sum. Powers of two are cheaper than those of
  // e, and as good here: what the product rounds off counts less the smaller the power is.
  template <int n>
  static RUSH_FN void chunk(Acc& acc, const T (&x)[n], i64, i64) {
    constexpr E kPerE = E(1.4426950408889634074);
    E top = acc.top;
    RUSH_UNROLL
    for (int k = 0; k < n; ++k) top = math::fmax(top, x[k]);
    if (top != acc.top) acc = {top, acc.sum * math::exp2((acc.top - top) * kPerE)};
    const E shift = math::isinf(top) ? E(0) : top;
    RUSH_UNROLL
    for (int k = 0; k < n; ++k) acc.sum += power_of_two((x[k] - shift) * kPerE);
  }
  // Of what is at most 0: below 2^-126 it may be 0, beside a sum of 1 or more.
  static RUSH_FN E power_of_two(E x) {
    if constexpr (is_same<E, float>)
      return math::quick_exp2(x);
    else
      return math::exp2(x);
  }
  static RUSH_FN T finish(const Acc& acc, double) {
    if (math::isfinite(acc.top)) return acc.top + math::log(acc.sum);
    return math::isnan(acc.sum) ? acc.sum : acc.top;
  }
};

}  // namespace rush::folds

#undef RUSH_UNROLL
