// batch_norm.cu: normalisation of channels over a batch, forward and backward.
//
// An image is (batch, channels, inner), contiguous, or rows of channels (channels-last). Either
// pass takes two kernels: one forms two sums for each channel, one goes over the elements. Small
// channels-last images take one kernel that does both, whose blocks wait for each other between.
#include "cuda/kernels/batch_norm.h"

namespace rush {

// ---- sums ----

// Channels-last. A block takes `columns` packs of V channels (x) and a part of the rows (y).
template <class Kind, class T, class C, int V>
__global__ void __launch_bounds__(kThreads) channel_sums_last(BatchNormArgs args) {
  after_earlier();
  const int columns = args.columns, lanes = kThreads / columns;
  const int lane = threadIdx.x / columns;
  const i64 first = (i64(blockIdx.x) * columns + threadIdx.x % columns) * V;
  Kind kinds[V];
  PackSums<C, V> sums = sum_rows<Kind, T, C, V>(args, kinds, first, share_of_rows(args));
  finish_channels(args, kinds, sums, first, lane, lanes);
}

// Contiguous. A block takes one channel (x) and a segment of its planes (y).
template <class Kind, class T, class C, int V>
__global__ void __launch_bounds__(kThreads) channel_sums(BatchNormArgs args) {
  after_earlier();
  const i64 c = blockIdx.x, planes = args.rows / args.inner;
  const i64 begin = i64(blockIdx.y) * args.segment;
  const i64 end = begin + args.segment < planes ? begin + args.segment : planes;
  const Kind kinds[] = {Kind(args, c)};
  PackSums<C, 1> sum;
  // The threads share the segment's planes as one range of packs, of which several are under way.
  constexpr int kAtOnce = 4;
  const i64 packs = args.inner / V, count = (end - begin) * packs;
  for (i64 i = threadIdx.x; i < count; i += kAtOnce * kThreads) {
    Pack<T, V> px[kAtOnce], pg[kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      const i64 k = i + u * kThreads, plane = quotient(k, packs);
      const i64 at = ((begin + plane) * args.channels + c) * args.inner + (k - plane * packs) * V;
      if (k >= count) continue;
      px[u] = pg[u] = load_pack<V>(typed<T>(args.x) + at);
      if constexpr (Kind::reads > 1) pg[u] = load_pack<V>(typed<T>(args.g) + at);
    }
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      if (i + u * kThreads >= count) continue;
#pragma unroll
      for (int v = 0; v < V; ++v) kinds[0].add(sum.v[0], px[u].v[v], pg[u].v[v]);
    }
  }
  finish_channels(args, kinds, sum, c, threadIdx.x, kThreads);
}

// ---- elements ----

template <class Kind, class T, int V>
__global__ void __launch_bounds__(kThreads) channel_map_last(BatchNormArgs args) {
  after_earlier();
  const int columns = args.columns;
  const i64 first = (i64(blockIdx.x) * columns + threadIdx.x % columns) * V;
  if (first >= args.channels) return;
  Kind kinds[V];
#pragma unroll
  for (int v = 0; v < V; ++v) kinds[v] = Kind(args, first + v);
  constexpr int kRows = Kind::reads == 1 ? 8 : 2;  // at once; measured
  map_rows<kRows, true, T>(args, kinds, first, share_of_rows(args));
}

// ---- both in one ----

// Waits for the blocks that share the two counters, all of which run at once: the launch is
// cooperative. The last one to leave makes them zero again.
RUSH_FN void wait_for_all(u32* counters, u32 blocks) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(counters, 1u);
    while (*static_cast<volatile u32*>(counters) < blocks) {
    }
    if (atomicAdd(counters + 1, 1u) == blocks - 1) counters[0] = counters[1] = 0;
    __threadfence();
  }
  __syncthreads();
}

template <class T, class W, class C>
struct Forward {
  using Sum = Moments<T, W, C>;
  using Map = Normalize<T, W, C, C>;
  RUSH_FN static Map map(const BatchNormArgs& a, i64 c, const Sum& sum, Sums<C> s) {
    const auto [mean, var] = sum.result(a, s);
    return Map(a, c, mean, var);
  }
};
template <class T, class W, class C>
struct Backward {
  using Sum = GradSums<T, W, C>;
  using Map = InputGrad<T, W, C, C>;
  // (As GradSums::finish would give them to another launch: the bits are the same.)
  RUSH_FN static Map map(const BatchNormArgs& a, i64 c, const Sum&, Sums<C> s) {
    const C rstd = C(1) / math::sqrt(typed<C>(a.var)[c] + C(a.eps));
    return Map(a, c, s.first, s.second * rstd);
  }
};

// Channels-last, blocks as in channel_sums_last.
template <class Pass, class T, class C, int V>
__global__ void __launch_bounds__(kThreads, kNormBlocks) channel_norm_last(BatchNormArgs args) {
  after_earlier();
  const int columns = args.columns, lanes = kThreads / columns;
  const int lane = threadIdx.x / columns, column = threadIdx.x % columns;
  const i64 first = (i64(blockIdx.x) * columns + column) * V;
  const RowShare rows = share_of_rows(args);
  const bool works = first < args.channels;
  typename Pass::Sum kinds[V];
  PackSums<C, V> sums = sum_rows<typename Pass::Sum, T, C, V>(args, kinds, first, rows);
  join_lanes(sums, lane, lanes);
  if (gridDim.y > 1) {
    put_partial(args, sums, first, lane);
    wait_for_all(args.counters + 2 * blockIdx.x, gridDim.y);
    sums = join_partials<C, V>(args, first, lane, lanes);
  }
  __shared__ PackSums<C, V> totals[kNormColumns];
  if (lane == 0) {
    totals[column] = sums;
    const bool ends = works && blockIdx.y == 0;
    const KnownOfChannels<typename Pass::Sum, V> known(args, first, ends);
    if (ends) end_channels(args, kinds, sums, first, known);
  }
  __syncthreads();
  if (!works) return;
  typename Pass::Map maps[V];
#pragma unroll
  for (int v = 0; v < V; ++v) maps[v] = Pass::map(args, first + v, kinds[v], totals[column].v[v]);
  map_rows<2, true, T>(args, maps, first, rows);
}

// Planes are numbered over the batch and the channels; `lanes` threads take one at a time.
template <class Kind, class T, int V>
__global__ void __launch_bounds__(kThreads) channel_map(BatchNormArgs args) {
  after_earlier();
  const int lanes = args.columns, lane = threadIdx.x % lanes;
  const i64 planes = args.n / args.inner, step = i64(gridDim.x) * (kThreads / lanes);
  for (i64 p = i64(blockIdx.x) * (kThreads / lanes) + threadIdx.x / lanes; p < planes; p += step) {
    const Kind kind(args, p % args.channels);
    const i64 base = p * args.inner;
    for (i64 i = lane * V; i < args.inner; i += lanes * V) {
      const Pack<T, V> px = load_pack<V>(typed<T>(args.x) + base + i);
      Pack<T, V> pg = px, out;
      if constexpr (Kind::reads > 1) pg = load_pack<V>(typed<T>(args.g) + base + i);
#pragma unroll
      for (int v = 0; v < V; ++v) out.v[v] = kind(px.v[v], pg.v[v]);
      store_pack<V>(typed<T>(args.y) + base + i, out);
    }
  }
}

}  // namespace rush
