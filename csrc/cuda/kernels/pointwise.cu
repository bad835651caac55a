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
#include "cuda/kernels/flat.h"

namespace rush {

template <class F, int P, class C, int V, class Out, class... In>
__global__ void __launch_bounds__(kThreads) pointwise_flat(PointwiseArgs<sizeof...(In)> args) {
  after_earlier();
  using R = Running<F, C, Out>;
  flat_stretch<R, C, V, Out, In...>(with_params<R, P>(args.params), args, blockIdx.x, gridDim.x);
}

// Packs of an input along rows, at two places.
template <class Operand>
struct Both {
  Operand a, b;
};
template <class F, class Out, int V, class... Operands>
RUSH_FN void apply_both(const F& f, Out* a, Out* b, const Both<Operands>&... in) {
  apply_pack<F, Out, V>(f, a, in.a.pack(0)...);
  apply_pack<F, Out, V>(f, b, in.b.pack(0)...);
}

template <class F, class C, int V, class Out, class... In, class Where, int... i>
RUSH_FN void rows_pack(const F& f, const PointwiseArgs<sizeof...(In)>& args, const Where& o,
                       Ints<i...>) {
  apply_packs<F, Out, V, 1>(
      f, typed<Out>(args.out) + o.at[0],
      Operand<Argument<F, C, i>, In, V, 1>(args, i, typed<In>(args.in[i]) + o.at[i + 1])...);
}
template <class F, class C, int V, class Out, class... In, class Where, int... i>
RUSH_FN void rows_packs(const F& f, const PointwiseArgs<sizeof...(In)>& args, const Where& o,
                        const Where& p, Ints<i...>) {
  apply_both<F, Out, V>(f, typed<Out>(args.out) + o.at[0], typed<Out>(args.out) + p.at[0],
                        Both<Operand<Argument<F, C, i>, In, V, 1>>{
                            {args, i, typed<In>(args.in[i]) + o.at[i + 1]},
                            {args, i, typed<In>(args.in[i]) + p.at[i + 1]}}...);
}

template <class F, int P, class C, int V, class Out, class... In>
__global__ void __launch_bounds__(kThreads)
    pointwise_rows(PointwiseArgs<sizeof...(In)> args, Nest<u32, sizeof...(In) + 1> nest) {
  after_earlier();
  using Inputs = typename UpTo<sizeof...(In)>::type;
  using R = Running<F, C, Out>;
  const R f = with_params<R, P>(args.params);
  const i64 step = thread_count();
  for (i64 i = thread_number(); i < args.n; i += 2 * step) {
    const auto at = offsets_of(nest, u32(i));
    if (i + step < args.n)
      rows_packs<R, C, V, Out, In...>(f, args, at, offsets_of(nest, u32(i + step)), Inputs{});
    else
      rows_pack<R, C, V, Out, In...>(f, args, at, Inputs{});
  }
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
  using R = Running<F, C, Out>;
  const R f = with_params<R, P>(args.params);
  for (i64 i = thread_number(); i < args.n; i += thread_count())
    strided_element<R, C, Out, In...>(f, args, offsets_of(nest, I(i)), Inputs{});
}

}  // namespace rush
