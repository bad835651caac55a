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

// The widest element, for kernels that move elements without looking at them.
struct alignas(16) Bytes16 {
  u64 v[2];
};

}  // namespace rush
