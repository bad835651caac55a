// functions.h (NVRTC): how kernels call the functors of csrc/functors.
#pragma once

#include "cuda/kernels/element.h"
#include "functors/activation.h"
#include "functors/ternary.h"

namespace rush {

// The condition of `where` is a bool whatever the other inputs are.
template <class F, class C, int i>
using Argument = conditional<i == 0 && is_same<F, functors::Where>, bool, C>;

// A functor by its coarse form: see functors/math_coarse.h.
template <class F>
struct Coarsely : F {
  template <class... A>
  RUSH_FN float operator()(A... a) const {
    return F::coarse(a...);
  }
};
template <class F, bool half_results>
struct RunningFor {
  using type = F;
};
template <class F>
  requires requires { &F::coarse; }
struct RunningFor<F, true> {
  using type = Coarsely<F>;
};
// The functor that runs for F, which computes in C, where its result becomes an Out.
template <class F, class C, class Out>
using Running = typename RunningFor<F, is_short_float<Out> && is_same<C, float>>::type;

template <class F, int P>
RUSH_FN F with_params(const Number* p) {
  static_assert(P <= kMaxParams);
  if constexpr (P == 0)
    return F{};
  else if constexpr (P == 1)
    return F{p[0]};
  else if constexpr (P == 2)
    return F{p[0], p[1]};
  else if constexpr (P == 3)
    return F{p[0], p[1], p[2]};
  else
    return F{p[0], p[1], p[2], p[3]};
}

// Packs of one argument, a block's threads apart.
template <class C, int V, int U>
struct Packs {
  Pack<C, V> p[U];
};

}  // namespace rush
