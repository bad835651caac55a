// select_long.cu: the k-th of long rows, or the k first, without sorting them.
//
// - select_count counts the next eight bits of the keys that match so far, select_narrow picks the
//   digit in which the wanted element lies. After the last pass its key is known, and how many of
//   its equals come before it.
// - select_tally counts in each tile the smaller keys and the same ones; summed up (scan.cu), they
//   tell select_find where the element stands, and select_gather where each of the k first goes.
//   Those stay in the order of their positions: a stable sort then does the rest.
#include "cuda/kernels/select.h"

namespace rush {

// Blocks: x over the row, y over rows.
template <class T>
__global__ void __launch_bounds__(kThreads) select_count(SelectArgs args) {
  after_earlier();
  using K = KeyOf<T>;
  __shared__ u32 counts[256];
  __shared__ u32 nans;
  const int shift = 8 * (args.passes - 1 - args.pass);
  const bool first = args.pass == 0;
  for (i64 row = blockIdx.y; row < args.rows; row += gridDim.y) {
    const T* x = typed<T>(args.x) + row * args.length;
    const u64 wanted = first ? 0 : args.key[row];
    counts[threadIdx.x] = 0;
    if (threadIdx.x == 0) nans = 0;
    __syncthreads();
    for (i64 base = i64(blockIdx.x) * kThreads; base < args.length; base += thread_count()) {
      const i64 i = base + threadIdx.x;
      const bool is_there = i < args.length;
      const K key = is_there ? key_at(args, x, i) : K(0);
      // (Shifting by all bits is no shift at all.)
      const bool matches = is_there && (first || u64(key) >> shift >> 8 == wanted >> shift >> 8);
      const u32 digit = u32(key >> shift) & 255;
      // Upper digits are often all the same: one lane adds for all that share it.
      const u32 same = lanes_with(digit) & __ballot_sync(kEveryLane, matches);
      if (matches && (same & ((1u << lane_number()) - 1)) == 0)
        atomicAdd(&counts[digit], u32(__popc(same)));
      if (first && is_there && is_nan_value(x[i])) atomicAdd(&nans, 1u);
    }
    __syncthreads();
    const u32 own = counts[threadIdx.x];
    using Word = unsigned long long;
    if (own > 0)
      atomicAdd(reinterpret_cast<Word*>(args.counts) + row * 256 + threadIdx.x, Word(own));
    if (threadIdx.x == 0 && nans > 0)
      atomicAdd(reinterpret_cast<Word*>(args.nans) + row, Word(nans));
    __syncthreads();
  }
}

// A block a row.
template <class T>
__global__ void __launch_bounds__(kThreads) select_narrow(SelectArgs args) {
  after_earlier();
  const int shift = 8 * (args.passes - 1 - args.pass);
  const i64 row = blockIdx.x;
  u64* counts = args.counts + row * 256;
  const u64 own = counts[threadIdx.x];
  const i64 left = args.pass == 0 ? wanted_place(args, i64(args.nans[row])) : args.left[row];
  const Share<u64> share = share_of_block(own);  // (all have read before one writes)
  counts[threadIdx.x] = 0;
  if (i64(share.before) <= left && left < i64(share.before + own)) {
    args.key[row] = (args.pass == 0 ? 0 : args.key[row]) | u64(threadIdx.x) << shift;
    args.left[row] = left - i64(share.before);
  }
}

// A thread's elements of a tile: bit j of each word.
struct Picks {
  u32 less, same;
};
template <class T>
RUSH_FN Picks picks_of(const SelectArgs& args, const T* x, i64 first, u64 wanted) {
  Picks picks{0, 0};
#pragma unroll
  for (int j = 0; j < kSelectItems; ++j) {
    if (first + j >= args.length) break;
    const u64 key = key_at(args, x, first + j);
    picks.less |= u32(key < wanted) << j;
    picks.same |= u32(key == wanted) << j;
  }
  return picks;
}

// Blocks: x a tile, y over rows.
template <class T>
__global__ void __launch_bounds__(kThreads) select_tally(SelectArgs args) {
  after_earlier();
  for (i64 row = blockIdx.y; row < args.rows; row += gridDim.y) {
    const T* x = typed<T>(args.x) + row * args.length;
    const i64 first = i64(blockIdx.x) * kSelectTile + i64(threadIdx.x) * kSelectItems;
    const Picks picks = picks_of(args, x, first, args.key[row]);
    // Both sums in one word: a tile has few elements.
    const Share<u32> share =
        share_of_block(u32(__popc(picks.less)) << 16 | u32(__popc(picks.same)));
    if (threadIdx.x != 0) continue;
    i64* tallies = args.tallies + row * 2 * args.tiles + blockIdx.x;
    tallies[0] = share.total >> 16;
    tallies[args.tiles] = share.total & 0xffff;
  }
}

// What lies before this thread's elements, in the row.
struct Before {
  i64 less, same;
};
RUSH_FN Before before_thread(const SelectArgs& args, i64 row, const Picks& picks) {
  const u32 own = u32(__popc(picks.less)) << 16 | u32(__popc(picks.same));
  const Share<u32> share = share_of_block(own);
  const i64* upto = args.tallies + row * 2 * args.tiles + blockIdx.x;
  return {upto[0] - (share.total >> 16) + (share.before >> 16),
          upto[args.tiles] - (share.total & 0xffff) + (share.before & 0xffff)};
}

template <class T>
__global__ void __launch_bounds__(kThreads) select_find(SelectArgs args) {
  after_earlier();
  for (i64 row = blockIdx.y; row < args.rows; row += gridDim.y) {
    const T* x = typed<T>(args.x) + row * args.length;
    const i64* upto = args.tallies + row * 2 * args.tiles + args.tiles + blockIdx.x;
    const i64 left = args.left[row];
    // Most tiles do not hold it.
    if (left >= upto[0] || (blockIdx.x > 0 && left < upto[-1])) continue;
    const i64 first = i64(blockIdx.x) * kSelectTile + i64(threadIdx.x) * kSelectItems;
    const Picks picks = picks_of(args, x, first, args.key[row]);
    i64 same = before_thread(args, row, picks).same;
    for (int j = 0; j < kSelectItems; ++j) {
      if (!(picks.same >> j & 1)) continue;
      if (same++ != left) continue;
      if (args.values) typed<T>(args.values)[row] = x[first + j];
      if (args.indices) args.indices[row] = first + j;
    }
  }
}

// The k first, in the order of their positions: values and positions to [rows][k].
template <class T>
__global__ void __launch_bounds__(kThreads) select_gather(SelectArgs args) {
  after_earlier();
  for (i64 row = blockIdx.y; row < args.rows; row += gridDim.y) {
    const T* x = typed<T>(args.x) + row * args.length;
    const i64 needed = args.left[row] + 1;  // of the equals
    const i64 first = i64(blockIdx.x) * kSelectTile + i64(threadIdx.x) * kSelectItems;
    const Picks picks = picks_of(args, x, first, args.key[row]);
    Before before = before_thread(args, row, picks);
    for (int j = 0; j < kSelectItems; ++j) {
      const bool less = picks.less >> j & 1, same = picks.same >> j & 1;
      if (less || (same && before.same < needed)) {
        const i64 to = before.less + (before.same < needed ? before.same : needed);
        typed<T>(args.values)[row * args.kept + to] = x[first + j];
        args.indices[row * args.kept + to] = first + j;
      }
      before.less += less;
      before.same += same;
    }
  }
}

}  // namespace rush
