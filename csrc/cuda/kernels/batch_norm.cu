// batch_norm.cu: normalisation of channels over a batch, forward and backward.
//
// An image is (batch, channels, inner), contiguous, or rows of channels (channels-last). Either
// pass takes two kernels: one forms two sums for each channel, one goes over the elements. Small
// channels-last images take one kernel that does both, whose blocks wait for each other between.
// - The sums are formed in segments, one a block. The block that comes last to a channel joins the
//   segments in their order and finishes the channel: no atomics on numbers, so the same bits come
//   out every time. Counters that tell the last block are zero before and after.
// - T is the type of the elements, W that of weight, bias, their gradients and the running
//   statistics, M that of the moments, C what is computed in.
#include "cuda/kernels/channel_sums.h"
#include "cuda/kernels/last_block.h"

namespace rush {

// ---- what a channel's two sums are, and what becomes of them ----

// The moments of a channel.
template <class T, class W, class C>
struct Moments : ShiftedSums<T, C> {
  using ShiftedSums<T, C>::pivot;
  RUSH_FN Moments() {}
  RUSH_FN static C typical(const BatchNormArgs& a, i64 c) {
    C x[3];
#pragma unroll
    for (int k = 0; k < 3; ++k) {
      const i64 row = a.rows * (3 + 2 * k) / 11;
      const i64 at = a.inner == 1 ? row * a.channels + c
                                  : (row / a.inner * a.channels + c) * a.inner + row % a.inner;
      x[k] = convert<C>(typed<T>(a.x)[at]);
    }
    return middle(x[0], x[1], x[2]);
  }
  RUSH_FN Moments(const BatchNormArgs& a, i64 c) : ShiftedSums<T, C>{typical(a, c)} {}
  struct Result {
    C mean, var;
  };
  RUSH_FN Result result(const BatchNormArgs& a, Sums<C> s) const {
    const C n = C(a.rows), shift = s.first / n, var = s.second / n - shift * shift;
    return {pivot + shift, var < 0 ? C(0) : var};
  }
  RUSH_FN void finish(const BatchNormArgs& a, i64 c, Sums<C> s) const {
    const auto [mean, var] = result(a, s);
    typed<C>(a.mean_out)[c] = mean;
    typed<C>(a.var_out)[c] = var;
    const C n = C(a.rows), rate = C(a.momentum);
    if (a.running_mean) {
      W* r = typed<W>(a.running_mean) + c;
      *r = convert<W>((1 - rate) * convert<C>(*r) + rate * mean);
    }
    if (a.running_var) {
      W* r = typed<W>(a.running_var) + c;
      *r = convert<W>((1 - rate) * convert<C>(*r) + rate * var * (n / (n - 1)));
    }
    if (a.batches && c == 0) *a.batches += 1;
  }
};

// Sums of g and of g times the centred x.
template <class T, class W, class C>
struct GradSums : CentredSums<T, C> {
  RUSH_FN GradSums() {}
  RUSH_FN GradSums(const BatchNormArgs& a, i64 c) : CentredSums<T, C>{typed<C>(a.mean)[c]} {}
  RUSH_FN void finish(const BatchNormArgs& a, i64 c, Sums<C> s) const {
    const C rstd = C(1) / math::sqrt(typed<C>(a.var)[c] + C(a.eps));
    typed<C>(a.sums)[c] = s.first;
    typed<C>(a.sums)[a.channels + c] = s.second * rstd;
    if (a.gb) typed<W>(a.gb)[c] = convert<W>(s.first);
    if (a.gw) typed<W>(a.gw)[c] = convert<W>(s.second * rstd);
  }
};

// ---- joining ----

// The block's sums into their place.
template <class C, int V>
RUSH_FN void put_partial(const BatchNormArgs& a, const PackSums<C, V>& mine, i64 first, int lane) {
  if (lane == 0 && first < a.channels)
    typed<PackSums<C, V>>(a.partial)[blockIdx.y * (a.channels / V) + first / V] = mine;
}

// The sums of all blocks with these channels, in lane 0.
template <class C, int V>
RUSH_FN PackSums<C, V> join_partials(const BatchNormArgs& a, i64 first, int lane, int lanes) {
  PackSums<C, V> mine;
  if (first < a.channels) {
    // Past this processor's own cache, which may hold older values; several at a time.
    constexpr int kAtOnce = 4;
    const C* from = typed<C>(a.partial) + first * 2;
    const i64 step = a.channels * 2;
    for (i64 s = lane; s < gridDim.y; s += lanes * kAtOnce) {
      C words[kAtOnce][2 * V];
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u)
#pragma unroll
        for (int k = 0; k < 2 * V; ++k)
          words[u][k] =
              s + u * lanes < gridDim.y ? __ldcg(from + (s + u * lanes) * step + k) : C(0);
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u)
#pragma unroll
        for (int k = 0; k < V; ++k)
          mine.v[k].first += words[u][2 * k], mine.v[k].second += words[u][2 * k + 1];
    }
  }
  join_lanes(mine, lane, lanes);
  return mine;
}

// Joins the block's sums with the others', and, in the last block, ends the channels.
template <class Kind, class C, int V>
RUSH_FN void finish_channels(const BatchNormArgs& a, const Kind (&kinds)[V], PackSums<C, V>& mine,
                             i64 first, int lane, int lanes) {
  join_lanes(mine, lane, lanes);
  if (gridDim.y > 1) {
    put_partial(a, mine, first, lane);
    if (!comes_last(a.counters + blockIdx.x, gridDim.y)) return;
    mine = join_partials<C, V>(a, first, lane, lanes);
  }
  if (lane == 0 && first < a.channels)
#pragma unroll
    for (int k = 0; k < V; ++k) kinds[k].finish(a, first + k, mine.v[k]);
}

// ---- sums ----

// Channels-last. A block takes `columns` packs of V channels (x) and a segment of the rows (y).
template <class Kind, class T, class C, int V>
__global__ void __launch_bounds__(kThreads) channel_sums_last(BatchNormArgs args) {
  after_earlier();
  const int columns = args.columns, lanes = kThreads / columns;
  const int lane = threadIdx.x / columns;
  const i64 first = (i64(blockIdx.x) * columns + threadIdx.x % columns) * V;
  const i64 rows = args.rows, begin = i64(blockIdx.y) * args.segment;
  const i64 end = begin + args.segment < rows ? begin + args.segment : rows;
  Kind kinds[V];
  PackSums<C, V> sums = sum_rows<Kind, T, C, V>(args, kinds, first, begin, end, lane, lanes);
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

// What an element needs of its channel.
template <class T, class W, class M, class C>
struct Normalize {
  static constexpr int reads = 1;
  C mean = 0, scale = 0, shift = 0;
  RUSH_FN Normalize() {}
  RUSH_FN Normalize(const BatchNormArgs& a, i64 c)
      : Normalize(a, c, convert<C>(typed<M>(a.mean)[c]), convert<C>(typed<M>(a.var)[c])) {}
  RUSH_FN Normalize(const BatchNormArgs& a, i64 c, C mean, C var) : mean(mean) {
    scale = C(1) / math::sqrt(var + C(a.eps));
    if (a.weight) scale *= convert<C>(typed<W>(a.weight)[c]);
    if (a.bias) shift = convert<C>(typed<W>(a.bias)[c]);
  }
  RUSH_FN T operator()(T x, T) const { return convert<T>((convert<C>(x) - mean) * scale + shift); }
};

template <class T, class W, class M, class C>
struct InputGrad {
  static constexpr int reads = 2;
  C mean = 0, scale = 0, plain = 0, along = 0;
  RUSH_FN InputGrad() {}
  // From the gradients of bias and weight.
  RUSH_FN InputGrad(const BatchNormArgs& a, i64 c)
      : InputGrad(a, c, typed<C>(a.sums)[c], typed<C>(a.sums)[a.channels + c]) {}
  RUSH_FN InputGrad(const BatchNormArgs& a, i64 c, C gb, C gw) {
    const C n = C(a.rows);
    const C rstd = C(1) / math::sqrt(convert<C>(typed<M>(a.var)[c]) + C(a.eps));
    mean = convert<C>(typed<M>(a.mean)[c]);
    scale = a.weight ? rstd * convert<C>(typed<W>(a.weight)[c]) : rstd;
    plain = gb / n;
    along = rstd * gw / n;
  }
  RUSH_FN T operator()(T x, T g) const {
    return convert<T>(scale * (convert<C>(g) - plain - (convert<C>(x) - mean) * along));
  }
};

template <class Kind, class T, int V>
__global__ void __launch_bounds__(kThreads) channel_map_last(BatchNormArgs args) {
  after_earlier();
  const int columns = args.columns, lanes = kThreads / columns;
  const i64 first = (i64(blockIdx.x) * columns + threadIdx.x % columns) * V;
  if (first >= args.channels) return;
  Kind kinds[V];
#pragma unroll
  for (int v = 0; v < V; ++v) kinds[v] = Kind(args, first + v);
  const i64 rows = args.rows, step = i64(gridDim.y) * lanes;
  map_rows<4 / Kind::reads, T>(args, kinds, first, i64(blockIdx.y) * lanes + threadIdx.x / columns,
                               rows, step);
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
  RUSH_FN static Map map(const BatchNormArgs& a, i64 c, const Sum&, Sums<C> s) {
    return Map(a, c, s.first, s.second / math::sqrt(typed<C>(a.var)[c] + C(a.eps)));
  }
};

// Channels-last, blocks as in channel_sums_last.
template <class Pass, class T, class C, int V>
__global__ void __launch_bounds__(kThreads, kNormBlocks) channel_norm_last(BatchNormArgs args) {
  after_earlier();
  const int columns = args.columns, lanes = kThreads / columns;
  const int lane = threadIdx.x / columns, column = threadIdx.x % columns;
  const i64 first = (i64(blockIdx.x) * columns + column) * V;
  const i64 rows = args.rows, begin = i64(blockIdx.y) * args.segment;
  const i64 end = begin + args.segment < rows ? begin + args.segment : rows;
  const bool works = first < args.channels;
  typename Pass::Sum kinds[V];
  PackSums<C, V> sums =
      sum_rows<typename Pass::Sum, T, C, V>(args, kinds, first, begin, end, lane, lanes);
  join_lanes(sums, lane, lanes);
  if (gridDim.y > 1) {
    put_partial(args, sums, first, lane);
    wait_for_all(args.counters + 2 * blockIdx.x, gridDim.y);
    sums = join_partials<C, V>(args, first, lane, lanes);
  }
  __shared__ PackSums<C, V> totals[kNormColumns];
  if (lane == 0) {
    totals[column] = sums;
    if (works && blockIdx.y == 0)
#pragma unroll
      for (int v = 0; v < V; ++v) kinds[v].finish(args, first + v, sums.v[v]);
  }
  __syncthreads();
  if (!works) return;
  typename Pass::Map maps[V];
#pragma unroll
  for (int v = 0; v < V; ++v) maps[v] = Pass::map(args, first + v, kinds[v], totals[column].v[v]);
  map_rows<2, T>(args, maps, first, begin + lane, end, lanes);
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
