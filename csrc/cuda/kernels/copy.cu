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
// of which a block takes kNarrowRun places of the other dim; blocks: x over those, z over batches.
template <class W, bool apart>
__global__ void __launch_bounds__(kThreads) copy_narrow(TransposeArgs args) {
  after_earlier();
  __shared__ W tile[kNarrowRun * kNarrowMost];
  const int few = int(apart ? args.rows : args.cols);
  const i64 wide = apart ? args.cols : args.rows, begin = i64(blockIdx.x) * kNarrowRun;
  const int run = int(wide - begin < kNarrowRun ? wide - begin : i64(kNarrowRun));
  for (i64 b = blockIdx.z; b < args.batches; b += gridDim.z) {
    const W* in = typed<W>(args.in) + b * args.in_batch;
    W* out = typed<W>(args.out) + b * args.out_batch;
    if constexpr (apart) {
      for (int k = threadIdx.x; k < run * few; k += kThreads) tile[k] = in[begin * few + k];
    } else {
      for (int k = threadIdx.x; k < kNarrowRun * few; k += kThreads) {
        const int at = k % kNarrowRun, which = k / kNarrowRun;
        if (at < run) tile[at * few + which] = in[which * args.in_row + begin + at];
      }
    }
    __syncthreads();
    if constexpr (apart) {
      for (int k = threadIdx.x; k < kNarrowRun * few; k += kThreads) {
        const int at = k % kNarrowRun, which = k / kNarrowRun;
        if (at < run) out[which * args.out_row + begin + at] = tile[at * few + which];
      }
    } else {
      for (int k = threadIdx.x; k < run * few; k += kThreads) out[begin * few + k] = tile[k];
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
