// fused.h (NVRTC): what kernels of several pointwise steps are made of. Their sources are generated
// (cuda/pointwise/fused_source.cpp): a struct `Work`, whose function `run` reads, computes and
// writes V elements, U times, for fused_flat or fused_nest.
#pragma once

#include "cuda/kernels/functions.h"
#include "cuda/kernels/fused_args.h"

namespace rush {

// How an input lies.
enum class Lies {
  Single,  // one element, for everyone
  Flat,    // as the outputs do
  Row,     // end to end along the innermost dim, or anyhow where elements are taken one by one
  Column,  // does not move along the innermost dim
  Along,   // of works over rows: the same row for all, or
  Across,  // one element per row
};

// Note [Steps that stay apart]
// The steps must give the bits that they give one by one. In pointwise.cu the compiler may contract
// what is inside one functor, so here it must see each functor by itself again:
// - Nothing may be contracted across steps. An empty `asm volatile` stops the compiler, but not the
//   assembler after it, which fuses a product with a sum that stand in different statements of its
//   input. What it cannot see through is an instruction whose result depends on an argument.
// - Two functors that read the same value must not share what is common to their formulas: whether
//   a product is contracted depends on how many read it. A volatile asm is never taken for another.
// - A half type needs nothing: its rounding is an instruction of its own.
template <class T>
RUSH_FN T apart(T x, [[maybe_unused]] u32 zero) {
#ifdef RUSH_DEVICE
  if constexpr (is_complex_v<T>) {
    return {apart(x.re, zero), apart(x.im, zero)};
  } else if constexpr (is_same<T, float>) {
    u32 bits = bit_cast<u32>(x);
    asm volatile("xor.b32 %0, %0, %1;" : "+r"(bits) : "r"(zero));
    return bit_cast<float>(bits);
  } else if constexpr (is_same<T, double>) {
    u64 bits = bit_cast<u64>(x);
    asm volatile("xor.b64 %0, %0, %1;" : "+l"(bits) : "l"(u64(zero)));
    return bit_cast<double>(bits);
  }
#endif
  return x;
}

// Where the elements of a thread are: the first of the outputs', and those of inputs that lie
// otherwise.
struct FlatPlace {
  i64 first;
  RUSH_FN i64 of(int) const { return 0; }
  // From one pack of V elements to the next that is taken with it.
  template <int V>
  RUSH_FN i64 apart() const {
    return kThreads * V;
  }
};
template <class I>
struct NestPlace {
  i64 first;
  Offsets<I, kMostFusedInputs + 1> offsets;
  RUSH_FN i64 of(int input) const { return offsets.at[input + 1]; }
  template <int V>
  RUSH_FN i64 apart() const {
    return 0;  // it takes one at a time
  }
};

template <Lies lies, class T, int V, int U, class Place>
RUSH_FN Packs<T, V, U> read(const FusedArgs& args, int input, const Place& place) {
  Packs<T, V, U> out;
  const T* from = typed<T>(args.in[input]);
#pragma unroll
  for (int u = 0; u < U; ++u) {
    if constexpr (lies == Lies::Flat) {
      out.p[u] = load_pack<V>(from + place.first + u * place.template apart<V>());
    } else if constexpr (lies == Lies::Row) {
      out.p[u] = load_pack<V>(from + place.of(input));
    } else if constexpr (lies == Lies::Along) {
      out.p[u] = load_pack<V>(from + place.i);
    } else {
      T x;
      if constexpr (lies == Lies::Across)
        x = from[place.row];
      else
        x = from[lies == Lies::Single ? 0 : place.of(input)];
#pragma unroll
      for (int k = 0; k < V; ++k) out.p[u].v[k] = x;
    }
  }
  return out;
}

// An input of one operand of a join: nothing where that is not.
template <Lies lies, class T, int V, int U, class Place>
RUSH_FN Packs<T, V, U> read_if(bool there, const FusedArgs& args, int input, const Place& place) {
  if (there) return read<lies, T, V, U>(args, input, place);
  return {};
}

template <class T, int V, int U, class Place>
RUSH_FN void write(const FusedArgs& args, int output, const Place& place,
                   const Packs<T, V, U>& packs) {
  T* to = typed<T>(args.out[output]) + place.first;
#pragma unroll
  for (int u = 0; u < U; ++u) store_pack<V>(to + u * place.template apart<V>(), packs.p[u]);
}

// All inputs flat or single.
template <class Work, int V, int U>
__global__ void __launch_bounds__(kThreads)
    fused_flat(FusedArgs args, FusedParams<Work::kParams> params) {
  after_earlier();
  const i64 packs = args.n / V, step = i64(gridDim.x) * kThreads * U;
  for (i64 i = i64(blockIdx.x) * kThreads * U + threadIdx.x; i < packs; i += step) {
    if (i + (U - 1) * kThreads < packs) {
      Work::template run<V, U>(args, params.at, FlatPlace{i * V});
    } else {
      for (i64 k = i; k < packs; k += kThreads)
        Work::template run<V, 1>(args, params.at, FlatPlace{k * V});
    }
  }
  if constexpr (V > 1) {
    const i64 last = packs * V + thread_number();
    if (last < args.n) Work::template run<1, 1>(args, params.at, FlatPlace{last});
  }
}

template <class Work, int V, class I>
__global__ void __launch_bounds__(kThreads)
    fused_nest(FusedArgs args, FusedParams<Work::kParams> params, FusedNest<I> nest) {
  after_earlier();
  for (i64 i = thread_number(); i < args.n; i += thread_count())
    Work::template run<V, 1>(args, params.at, NestPlace<I>{i * V, offsets_of(nest, I(i))});
}

}  // namespace rush
