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

// A pack of arguments of a flat launch, in the type the functor takes.
template <class C, int V, class In, int Inputs>
RUSH_FN Pack<C, V> argument_pack(const PointwiseArgs<Inputs>& args, int input, i64 first) {
  Pack<C, V> out;
  const bool given = (args.given >> input) & 1, single = (args.single >> input) & 1;
  if (given | single) {
    const C x = given ? value_of<C>(args.numbers[input]) : convert<C>(typed<In>(args.in[input])[0]);
#pragma unroll
    for (int k = 0; k < V; ++k) out.v[k] = x;
  } else {
    const Pack<In, V> raw = load_pack<V>(typed<In>(args.in[input]) + first);
#pragma unroll
    for (int k = 0; k < V; ++k) out.v[k] = convert<C>(raw.v[k]);
  }
  return out;
}

template <class C, int V, int U, class In, int Inputs>
RUSH_FN Packs<C, V, U> argument_packs(const PointwiseArgs<Inputs>& args, int input, i64 first) {
  Packs<C, V, U> out;
#pragma unroll
  for (int u = 0; u < U; ++u)
    out.p[u] = argument_pack<C, V, In>(args, input, first + i64(u) * kThreads * V);
  return out;
}

template <class F, class Out, int V, int U, class... Arguments>
RUSH_FN void apply_packs(const F& f, Out* out, const Arguments&... in) {
#pragma unroll
  for (int u = 0; u < U; ++u) {
    Pack<Out, V> result;
#pragma unroll
    for (int k = 0; k < V; ++k) result.v[k] = convert<Out>(f(in.p[u].v[k]...));
    store_pack<V>(out + i64(u) * kThreads * V, result);
  }
}

template <class F, class C, int V, int U, class Out, class... In, int... i>
RUSH_FN void flat_packs(const F& f, const PointwiseArgs<sizeof...(In)>& args, i64 first,
                        Ints<i...>) {
  apply_packs<F, Out, V, U>(f, typed<Out>(args.out) + first,
                            argument_packs<Argument<F, C, i>, V, U, In>(args, i, first)...);
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
