// copy.cu: moving elements: with conversion, over strides, transposed, and filling with one number.
//
// - convert() of csrc/functors says what a number becomes in another type, as on the CPU.
// - Without conversion only the width counts: the host names u8, u16, u32, u64 or Bytes16.
// - Flat: both ends contiguous and aligned to the pack. (Same type and contiguous: the host asks
//   the driver for a plain memory copy instead.)
// - Transposed: a tile of 32 by 32 goes through shared memory, so that both sides move
//   along memory. The odd row length keeps the columns in different banks.
// - Filling converts the number once per thread; a number has at most 16 bytes.
#include "cuda/kernels/element.h"

namespace rush {

template <class To, class From, int V>
__global__ void __launch_bounds__(kThreads) copy_flat(CopyArgs args) {
  after_earlier();
  const From* in = typed<From>(args.in);
  To* out = typed<To>(args.out);
  const i64 packs = args.n / V;
  for (i64 i = thread_number(); i < packs; i += thread_count()) {
    const Pack<From, V> from = load_pack<V>(in + i * V);
    Pack<To, V> to;
#pragma unroll
    for (int k = 0; k < V; ++k) to.v[k] = convert<To>(from.v[k]);
    store_pack<V>(out + i * V, to);
  }
  const i64 last = packs * V + thread_number();
  if (last < args.n) out[last] = convert<To>(in[last]);
}

template <class To, class From, class I>
__global__ void __launch_bounds__(kThreads) copy_strided(CopyArgs args, Nest<I, 2> nest) {
  after_earlier();
  for (i64 i = thread_number(); i < args.n; i += thread_count()) {
    const Offsets<I, 2> o = offsets_of(nest, I(i));
    typed<To>(args.out)[o.at[0]] = convert<To>(typed<From>(args.in)[o.at[1]]);
  }
}

inline constexpr int kTurn = 32, kTurnRows = kThreads / kTurn;

// Blocks: x over tiles of columns, y over tiles of rows, z over batches.
template <class W>
__global__ void __launch_bounds__(kThreads) copy_transposed(TransposeArgs args) {
  after_earlier();
  __shared__ W tile[kTurn][kTurn + 1];
  const int lane = threadIdx.x % kTurn, first = threadIdx.x / kTurn;
  const i64 row = i64(blockIdx.y) * kTurn, col = i64(blockIdx.x) * kTurn;
  for (i64 b = blockIdx.z; b < args.batches; b += gridDim.z) {
    const W* in = typed<W>(args.in) + b * args.in_batch;
    W* out = typed<W>(args.out) + b * args.out_batch;
    for (int k = first; k < kTurn; k += kTurnRows)
      if (col + k < args.cols && row + lane < args.rows)
        tile[k][lane] = in[(col + k) * args.in_row + row + lane];
    __syncthreads();
    for (int k = first; k < kTurn; k += kTurnRows)
      if (row + k < args.rows && col + lane < args.cols)
        out[(row + k) * args.out_row + col + lane] = tile[lane][k];
    __syncthreads();
  }
}

// The same where one of the two dims is short: a filter's taps, an image's few channels. `narrow`
// says whose: the input's inner one (apart = true) or the output's. That side is one run of memory,
// of which a block takes narrow_run() places of the other dim; blocks: x over those, z over batches.
// Both sides are read and written by packs of V.
template <class W, bool apart, int V>
__global__ void __launch_bounds__(kThreads) copy_narrow(TransposeArgs args) {
  after_earlier();
  constexpr int longest = narrow_run(sizeof(W)), U = 3;  // packs that a thread reads at once
  alignas(16) __shared__ W tile[longest * kNarrowMost];
  const int few = int(apart ? args.rows : args.cols);
  const i64 wide = apart ? args.cols : args.rows, begin = i64(blockIdx.x) * longest;
  const int run = int(wide - begin < longest ? wide - begin : i64(longest));
  const int packs = run / V, all = packs * few;
  const i64 row = apart ? args.out_row : args.in_row;
  for (i64 b = blockIdx.z; b < args.batches; b += gridDim.z) {
    const W* in = typed<W>(args.in) + b * args.in_batch + (apart ? begin * few : begin);
    W* out = typed<W>(args.out) + b * args.out_batch + (apart ? begin : begin * few);
    for (int first = threadIdx.x; first < all; first += U * kThreads) {
      Pack<W, V> held[U];
#pragma unroll
      for (int u = 0; u < U; ++u) {
        const int k = first + u * kThreads, which = k / packs;
        if (k < all)
          held[u] = load_pack<V>(in + (apart ? k * V : which * row + (k - which * packs) * V));
      }
#pragma unroll
      for (int u = 0; u < U; ++u) {
        const int k = first + u * kThreads, which = k / packs, at = (k - which * packs) * V;
        if (k >= all) continue;
        if constexpr (apart) {
          store_pack<V>(tile + k * V, held[u]);
        } else {
#pragma unroll
          for (int j = 0; j < V; ++j) tile[(at + j) * few + which] = held[u].v[j];
        }
      }
    }
    __syncthreads();
    for (int k = threadIdx.x; k < all; k += kThreads) {
      const int which = k / packs, at = (k - which * packs) * V;
      if constexpr (apart) {
        Pack<W, V> pack;
#pragma unroll
        for (int j = 0; j < V; ++j) pack.v[j] = tile[(at + j) * few + which];
        store_pack<V>(out + which * row + at, pack);
      } else {
        store_pack<V>(out + k * V, load_pack<V>(tile + k * V));
      }
    }
    __syncthreads();
  }
}

template <class T>
RUSH_FN T filling(const Number& value) {
  return convert<T>(value_of<opmath<T>>(value));
}

template <class T, int V>
__global__ void __launch_bounds__(kThreads) fill_flat(FillArgs args) {
  after_earlier();
  const T x = filling<T>(args.value);
  T* out = typed<T>(args.out);
  Pack<T, V> pack;
#pragma unroll
  for (int k = 0; k < V; ++k) pack.v[k] = x;
  const i64 packs = args.n / V;
  for (i64 i = thread_number(); i < packs; i += thread_count()) store_pack<V>(out + i * V, pack);
  const i64 last = packs * V + thread_number();
  if (last < args.n) out[last] = x;
}

template <class T, class I>
__global__ void __launch_bounds__(kThreads) fill_strided(FillArgs args, Nest<I, 1> nest) {
  after_earlier();
  const T x = filling<T>(args.value);
  for (i64 i = thread_number(); i < args.n; i += thread_count())
    typed<T>(args.out)[offsets_of(nest, I(i)).at[0]] = x;
}

}  // namespace rush
