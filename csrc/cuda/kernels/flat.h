// flat.h (NVRTC): a functor over operands that lie end to end, aligned to the pack.
#pragma once

#include "cuda/kernels/functions.h"

namespace rush {

template <int... i>
struct Ints {};
template <int n, int... i>
struct UpTo : UpTo<n - 1, n - 1, i...> {};
template <int... i>
struct UpTo<0, i...> {
  using type = Ints<i...>;
};

// An input: U packs, a block's threads apart; or one element, V U times. They are converted when all
// inputs are under way: a thread that waits for its first load before it asks for the second leaves a
// tenth of the bandwidth unused.
template <class C, class In, int V, int U>
struct Operand {
  KeptPack<In, V> raw[U];

  template <int Inputs>
  RUSH_FN Operand(const PointwiseArgs<Inputs>& args, int input, const In* from) {
    const bool given = (args.given >> input) & 1, single = (args.single >> input) & 1;
    if (given | single) {
      const In x = given ? convert<In>(value_of<C>(args.numbers[input])) : *from;
      Pack<In, V> all;
#pragma unroll
      for (int k = 0; k < V; ++k) all.v[k] = x;
#pragma unroll
      for (int u = 0; u < U; ++u) raw[u] = all;
    } else {
#pragma unroll
      for (int u = 0; u < U; ++u) raw[u] = KeptPack<In, V>(from + i64(u) * kThreads * V);
    }
  }
  RUSH_FN Pack<C, V> pack(int u) const { return widen<C>(raw[u]); }
};
// Of a flat launch.
template <class C, class In, int V, int U, int Inputs>
RUSH_FN Operand<C, In, V, U> flat_operand(const PointwiseArgs<Inputs>& args, int input, i64 first) {
  const bool single = (args.single >> input) & 1;
  return {args, input, typed<In>(args.in[input]) + (single ? 0 : first)};
}

template <class F, class Out, int V, class... Arguments>
RUSH_FN void apply_pack(const F& f, Out* out, const Arguments&... in) {
  Pack<Out, V> result;
#pragma unroll
  for (int k = 0; k < V; ++k) result.v[k] = convert<Out>(f(in.v[k]...));
  store_pack<V>(out, result);
}
template <class F, class Out, int V, int U, class... Operands>
RUSH_FN void apply_packs(const F& f, Out* out, const Operands&... in) {
#pragma unroll
  for (int u = 0; u < U; ++u) apply_pack<F, Out, V>(f, out + i64(u) * kThreads * V, in.pack(u)...);
}

template <class F, class C, int V, int U, class Out, class... In, int... i>
RUSH_FN void flat_packs(const F& f, const PointwiseArgs<sizeof...(In)>& args, i64 first,
                        Ints<i...>) {
  apply_packs<F, Out, V, U>(f, typed<Out>(args.out) + first,
                            flat_operand<Argument<F, C, i>, In, V, U>(args, i, first)...);
}

// What block number `block` of `blocks` does of it.
template <class F, class C, int V, class Out, class... In>
RUSH_FN void flat_stretch(const F& f, const PointwiseArgs<sizeof...(In)>& args, i64 block,
                          i64 blocks) {
  using Inputs = typename UpTo<sizeof...(In)>::type;
  constexpr int U = packs_at_once(V);
  const i64 packs = args.n / V, step = blocks * kThreads * U;
  for (i64 i = block * kThreads * U + threadIdx.x; i < packs; i += step) {
    if (i + (U - 1) * kThreads < packs) {
      flat_packs<F, C, V, U, Out, In...>(f, args, i * V, Inputs{});
    } else {
      for (i64 k = i; k < packs; k += kThreads)
        flat_packs<F, C, V, 1, Out, In...>(f, args, k * V, Inputs{});
    }
  }
  if constexpr (V > 1) {
    const i64 last = packs * V + block * kThreads + threadIdx.x;
    if (last < args.n) flat_packs<F, C, 1, 1, Out, In...>(f, args, last, Inputs{});
  }
}

}  // namespace rush
