// mask.cu: the elements that are not zero: how many, where, and what stands there.
//
// - A tile is 4096 elements, 16 in a row for each thread. mask_count counts each tile; the counts
//   are summed up (scan.cu); the others then know where a tile's results begin.
// - A tile's places are brought together in shared memory first, so that they are written along
//   memory. Integers and bools are zero when their bytes are: the host names them by width.
// - V elements are read at once; V > 1: x is aligned to the pack.
#include "cuda/kernels/block.h"
#include "cuda/kernels/fault.h"
#include "cuda/kernels/mask_args.h"

namespace rush {

template <class T>
RUSH_FN bool is_nonzero(T v) {
  if constexpr (is_complex_v<T>)
    return v.re != 0 || v.im != 0;
  else if constexpr (is_same<T, half> || is_same<T, bfloat16>)
    return (v.bits & 0x7fff) != 0;
  else
    return v != T(0);
}

// Bit k: element first + k is there and not zero.
template <class T, int V>
RUSH_FN u32 nonzero_bits(const T* x, i64 first, i64 n) {
  u32 bits = 0;
#pragma unroll
  for (int k = 0; k < kMaskItems; k += V) {
    if (V > 1 && first + k + V <= n) {
      const Pack<T, V> pack = load_pack<V>(x + first + k);
#pragma unroll
      for (int v = 0; v < V; ++v) bits |= u32(is_nonzero(pack.v[v])) << (k + v);
    } else {
#pragma unroll
      for (int v = 0; v < V; ++v)
        if (first + k + v < n) bits |= u32(is_nonzero(x[first + k + v])) << (k + v);
    }
  }
  return bits;
}

template <class T, int V>
__global__ void __launch_bounds__(kThreads) mask_count(MaskArgs args) {
  after_earlier();
  const i64 first = i64(blockIdx.x) * kMaskTile + i64(threadIdx.x) * kMaskItems;
  const u32 own = u32(__popc(nonzero_bits<T, V>(typed<T>(args.x), first, args.n)));
  const Share<u32> share = share_of_block(own);
  if (threadIdx.x != 0) return;
  args.starts[blockIdx.x + 1] = share.total;
  if (blockIdx.x == 0) args.starts[0] = 0;
}

// Calls f(number among the results, position) for what is not zero in this block's tile.
template <class T, int V, class F>
RUSH_FN void each_nonzero(const MaskArgs& args, F f) {
  __shared__ u16 places[kMaskTile];
  const int own_first = int(threadIdx.x) * kMaskItems;
  const i64 base = i64(blockIdx.x) * kMaskTile;
  const u32 bits = nonzero_bits<T, V>(typed<T>(args.x), base + own_first, args.n);
  const Share<u32> share = share_of_block(u32(__popc(bits)));
  u32 at = share.before;
#pragma unroll
  for (int k = 0; k < kMaskItems; ++k)
    if (bits >> k & 1) places[at++] = u16(own_first + k);
  __syncthreads();
  const i64 start = args.starts[blockIdx.x];
  for (u32 q = threadIdx.x; q < share.total; q += kThreads) f(start + q, base + places[q]);
}

template <class T, int V, class I>
__global__ void __launch_bounds__(kThreads) mask_coordinates(MaskArgs args, MaskShape<I> shape) {
  after_earlier();
  each_nonzero<T, V>(args, [&](i64 number, i64 position) {
    i64* to = args.positions + number * args.stride;
    I rest = I(position);
    for (int d = shape.dims - 1; d > 0; --d) {
      const I above = shape.sizes[d](rest);
      to[d * args.dim_stride] = i64(rest - above * shape.sizes[d].d);
      rest = above;
    }
    to[0] = i64(rest);
  });
}

// W: the width of the values. The mask is read as bytes.
template <class W, int V>
__global__ void __launch_bounds__(kThreads) mask_select(MaskArgs args) {
  after_earlier();
  each_nonzero<u8, V>(args, [&](i64 number, i64 position) {
    typed<W>(args.out)[number] = typed<W>(args.from)[position];
  });
}

template <class W, int V>
__global__ void __launch_bounds__(kThreads) mask_place(MaskArgs args) {
  after_earlier();
  each_nonzero<u8, V>(args, [&](i64 number, i64 position) {
    if (number < args.room)
      typed<W>(args.out)[position] = typed<W>(args.from)[number];
    else
      report(args.fault, args.launch, position, number);
  });
}

}  // namespace rush
