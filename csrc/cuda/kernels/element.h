// element.h (NVRTC): what the kernels share: threads as numbers, packs of elements, conversion.
#pragma once

#include "cuda/kernels/args.h"
#include "functors/complex.h"
#include "functors/convert.h"

namespace rush {

// Threads per block, of every kernel. Loops over elements stride by the whole grid, so the host may
// launch as few blocks as fill the GPU.
inline constexpr int kThreads = 256;

RUSH_FN i64 thread_number() { return i64(blockIdx.x) * kThreads + threadIdx.x; }
RUSH_FN i64 thread_count() { return i64(gridDim.x) * kThreads; }

// V elements that are read or written by one instruction; V * sizeof(T) is at most 16.
template <class T, int V>
struct alignas(sizeof(T) * V) Pack {
  T v[V];
};

// The same for a while: as words, which is how it lies in registers. The compiler takes packs of
// short elements apart where they are loaded: it waits for them there, and needs a register for each.
template <class T, int V>
struct KeptPack {
  using Word = conditional<sizeof(T) < 4 && V * sizeof(T) % 4 == 0, u32, T>;
  using Words = Pack<Word, V* int(sizeof(T)) / int(sizeof(Word))>;
  Words words;
  KeptPack() = default;
  RUSH_FN KeptPack(const Pack<T, V>& pack) : words(bit_cast<Words>(pack)) {}
  RUSH_FN explicit KeptPack(const T* from) : words(*reinterpret_cast<const Words*>(from)) {}
  RUSH_FN Pack<T, V> pack() const { return bit_cast<Pack<T, V>>(words); }
};

// ---- walking over strides ----

template <class I, int Operands>
struct Offsets {
  conditional<sizeof(I) == 4, i32, i64> at[Operands];
};

// Where element number i of the nest's shape lies in each operand.
template <class I, int Operands>
RUSH_FN Offsets<I, Operands> offsets_of(const Nest<I, Operands>& nest, I i) {
  I sum[Operands] = {};
#pragma unroll
  for (int d = 0; d < kNestDims; ++d) {
    if (d >= nest.dims) break;
    const I rest = nest.sizes[d](i), k = i - rest * nest.sizes[d].d;
#pragma unroll
    for (int o = 0; o < Operands; ++o) sum[o] += k * nest.strides[d][o];
    i = rest;
  }
  Offsets<I, Operands> out;
#pragma unroll
  for (int o = 0; o < Operands; ++o) out.at[o] = sum[o];
  return out;
}

// ---- reading and writing ----

// As numbers to compute with. (Two bfloat16 of a word by one instruction each, which the compiler does
// not find by itself.)
template <class C, class T, int V>
RUSH_FN Pack<C, V> widen(const KeptPack<T, V>& kept) {
  Pack<C, V> out;
  if constexpr (is_same<T, bfloat16> && is_same<C, float> && V % 2 == 0) {
#pragma unroll
    for (int k = 0; k < V / 2; ++k) {
      const u32 word = kept.words.v[k];
      out.v[2 * k] = bit_cast<float>(word << 16);
      out.v[2 * k + 1] = bit_cast<float>(word & 0xffff0000u);
    }
  } else {
    const Pack<T, V> own = kept.pack();
#pragma unroll
    for (int k = 0; k < V; ++k) out.v[k] = convert<C>(own.v[k]);
  }
  return out;
}

// (A complex number could be made from a Number in two ways; returning it names the right one.)
template <class T>
RUSH_FN T value_of(const Number& n) {
  return n;
}

template <class T>
RUSH_FN const T* typed(const void* p) {
  return static_cast<const T*>(p);
}
template <class T>
RUSH_FN T* typed(void* p) {
  return static_cast<T*>(p);
}

template <int V, class T>
RUSH_FN Pack<T, V> load_pack(const T* p) {
  return *reinterpret_cast<const Pack<T, V>*>(p);
}
template <int V, class T>
RUSH_FN void store_pack(T* p, const Pack<T, V>& pack) {
  *reinterpret_cast<Pack<T, V>*>(p) = pack;
}
// The same to global memory, and by one instruction for certain: the compiler writes packs word by
// word in some kernels, such as those with barriers of clusters.
template <int V, class T>
RUSH_FN void write_pack(T* p, const Pack<T, V>& pack) {
#ifdef RUSH_DEVICE
  if constexpr (sizeof(pack) == 16) {
    const auto w = bit_cast<Pack<u32, 4>>(pack);
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(p)),
                 "r"(w.v[0]), "r"(w.v[1]), "r"(w.v[2]), "r"(w.v[3])
                 : "memory");
    return;
  }
#endif
  store_pack(p, pack);
}

// The widest element, for kernels that move elements without looking at them.
struct alignas(16) Bytes16 {
  u64 v[2];
};

}  // namespace rush
