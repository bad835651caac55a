// pointwise.cu: out[i] = f(in[i], ...) for every functor of csrc/functors.
//
// - Templates only. The host names what it needs, e.g.
//     rush::pointwise_flat<rush::functors::Exp, 0, float, 8, rush::half, rush::half>
//   (functor, its number of params, compute type, pack width, output type, input types), and NVRTC
//   instantiates it. Any mix of types is possible: operands are converted as they are read.
// - half and bfloat16 are types of memory; the compute type is float.
// - Flat: all operands end to end, aligned to the pack; an input may also be one element, or a
//   number that came with the launch. A pack is 16 bytes of the widest operand; a thread takes
//   several at a time, so that their loads overlap, and the last few elements go one by one.
// - Rows: a Nest of packs; the operands move by one along the innermost dim, or not at all.
// - Strided: anything else, through a Nest. An output may be an input, element for element.
// - Integer division by zero does not trap here; it yields some number, as the hardware has it.
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

template <class F, int P, class C, int V, class Out, class... In>
__global__ void __launch_bounds__(kThreads) pointwise_flat(PointwiseArgs<sizeof...(In)> args) {
  after_earlier();
  using Inputs = typename UpTo<sizeof...(In)>::type;
  const F f = with_params<F, P>(args.params);
  constexpr int U = packs_at_once(V);
  const i64 packs = args.n / V, step = i64(gridDim.x) * kThreads * U;
  for (i64 i = i64(blockIdx.x) * kThreads * U + threadIdx.x; i < packs; i += step) {
    if (i + (U - 1) * kThreads < packs) {
      flat_packs<F, C, V, U, Out, In...>(f, args, i * V, Inputs{});
    } else {
      for (i64 k = i; k < packs; k += kThreads)
        flat_packs<F, C, V, 1, Out, In...>(f, args, k * V, Inputs{});
    }
  }
  if constexpr (V > 1) {
    const i64 last = packs * V + thread_number();
    if (last < args.n) flat_packs<F, C, 1, 1, Out, In...>(f, args, last, Inputs{});
  }
}

// A pack of arguments along a row: at an offset, or V times what is there.
template <class C, int V, class In, int Inputs>
RUSH_FN Packs<C, V, 1> row_pack(const PointwiseArgs<Inputs>& args, int input, i64 offset) {
  Packs<C, V, 1> out;
  const bool given = (args.given >> input) & 1, single = (args.single >> input) & 1;
  if (given | single) {
    const C x =
        given ? value_of<C>(args.numbers[input]) : convert<C>(typed<In>(args.in[input])[offset]);
#pragma unroll
    for (int k = 0; k < V; ++k) out.p[0].v[k] = x;
  } else {
    const Pack<In, V> raw = load_pack<V>(typed<In>(args.in[input]) + offset);
#pragma unroll
    for (int k = 0; k < V; ++k) out.p[0].v[k] = convert<C>(raw.v[k]);
  }
  return out;
}

template <class F, class C, int V, class Out, class... In, class Where, int... i>
RUSH_FN void rows_element(const F& f, const PointwiseArgs<sizeof...(In)>& args, const Where& o,
                          Ints<i...>) {
  apply_packs<F, Out, V, 1>(f, typed<Out>(args.out) + o.at[0],
                            row_pack<Argument<F, C, i>, V, In>(args, i, o.at[i + 1])...);
}

template <class F, int P, class C, int V, class Out, class... In>
__global__ void __launch_bounds__(kThreads)
    pointwise_rows(PointwiseArgs<sizeof...(In)> args, Nest<u32, sizeof...(In) + 1> nest) {
  after_earlier();
  using Inputs = typename UpTo<sizeof...(In)>::type;
  const F f = with_params<F, P>(args.params);
#pragma unroll 2
  for (i64 i = thread_number(); i < args.n; i += thread_count())
    rows_element<F, C, V, Out, In...>(f, args, offsets_of(nest, u32(i)), Inputs{});
}

template <class C, class In, int Inputs>
RUSH_FN C argument(const PointwiseArgs<Inputs>& args, int input, i64 offset) {
  if ((args.given >> input) & 1) return value_of<C>(args.numbers[input]);
  return convert<C>(typed<In>(args.in[input])[offset]);
}

template <class F, class C, class Out, class... In, class Where, int... i>
RUSH_FN void strided_element(const F& f, const PointwiseArgs<sizeof...(In)>& args, const Where& o,
                             Ints<i...>) {
  typed<Out>(args.out)[o.at[0]] =
      convert<Out>(f(argument<Argument<F, C, i>, In>(args, i, o.at[i + 1])...));
}

template <class F, int P, class C, class I, class Out, class... In>
__global__ void __launch_bounds__(kThreads)
    pointwise_strided(PointwiseArgs<sizeof...(In)> args, Nest<I, sizeof...(In) + 1> nest) {
  after_earlier();
  using Inputs = typename UpTo<sizeof...(In)>::type;
  const F f = with_params<F, P>(args.params);
  for (i64 i = thread_number(); i < args.n; i += thread_count())
    strided_element<F, C, Out, In...>(f, args, offsets_of(nest, I(i)), Inputs{});
}

}  // namespace rush
