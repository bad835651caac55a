// exponentials.h (NVRTC): sums of exponentials in one pass, without overflow.
#pragma once

#include "cuda/kernels/element.h"
#include "functors/binary.h"

namespace rush {

// e^x for sums over values of type T. What was read in 11 bits or fewer needs no more than the special
// function unit's two units in the last place, and more would take longer than reading it.
template <class T, class C>
RUSH_FN C exp_over(C x) {
  if constexpr (sizeof(T) == 2)
    return math::quick_exp2(x * math::log2_e<C>);
  else
    return math::exp(x);
}

// functors::Maximum (nan wins), as one instruction where there is one.
template <class C>
RUSH_FN C larger(C a, C b) {
  return functors::Maximum{}(a, b);
}
#if defined(RUSH_DEVICE) && __CUDA_ARCH__ >= 800
template <>
RUSH_FN float larger(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
#endif

// The sum of exp(x - top) beside the largest x. An infinity minus itself is no number, which is
// what a softmax of infinities is.
template <class C>
struct Exponentials {
  C top, sum;
  static RUSH_FN Exponentials none() { return {-limits<C>::inf, C(0)}; }

  template <class T, int V, int n>
  RUSH_FN void add(const Pack<T, V> (&packs)[n]) {
    C x[n * V], best = top;
#pragma unroll
    for (int j = 0; j < n * V; ++j) {
      x[j] = convert<C>(packs[j / V].v[j % V]);
      best = larger(best, x[j]);
    }
    if (best == -limits<C>::inf) return;
    if (!(best == top)) sum *= exp_over<T>(top - best);
    top = best;
#pragma unroll
    for (int j = 0; j < n * V; ++j) sum += exp_over<T>(x[j] - top);
  }
  template <class T, int V>
  RUSH_FN void add(const Pack<T, V>& pack) {
    const Pack<T, V> packs[1] = {pack};
    add(packs);
  }
  RUSH_FN C log() const { return math::isfinite(top) ? top + math::log(sum) : top; }
};

struct JoinExponentials {
  template <class C>
  RUSH_FN Exponentials<C> operator()(const Exponentials<C>& a, const Exponentials<C>& b) const {
    Exponentials<C> out;
    out.top = functors::Maximum{}(a.top, b.top);
    const C of_a = a.top == out.top ? C(1) : math::exp(a.top - out.top);
    const C of_b = b.top == out.top ? C(1) : math::exp(b.top - out.top);
    out.sum = a.sum * of_a + b.sum * of_b;
    return out;
  }
};

}  // namespace rush
