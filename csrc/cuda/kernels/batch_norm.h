// batch_norm.h (NVRTC): what batch norm adds up and does with elements, by itself (batch_norm.cu) or
// with other steps (fused_rows.h).
// - The sums are formed in parts, one per block. The block that comes last to a channel joins the
//   parts in their order and finishes the channel: no atomics on numbers, so the same bits come
//   out every time. Counters that tell the last block are zero before and after.
// - All blocks together add up from the first row to the last, and what follows goes back from the last
//   to the first: it finds what was read last in the GPU's cache.
// - Products that are added to are so by name: left to the compiler, they would be in one kernel and not
//   in another, and all of these give the same bits.
// - T is the type of the elements, W that of weight, bias, their gradients and the running
//   statistics, M that of the moments, C what is computed in.
#pragma once

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
    const C n = C(a.rows), shift = s.first / n, var = math::fma(-shift, shift, s.second / n);
    return {pivot + shift, var < 0 ? C(0) : var};
  }
  struct Known {
    C mean = 0, var = 0;  // the running ones
    Known() = default;
    RUSH_FN Known(const BatchNormArgs& a, i64 c)
        : mean(a.running_mean ? convert<C>(typed<W>(a.running_mean)[c]) : C(0)),
          var(a.running_var ? convert<C>(typed<W>(a.running_var)[c]) : C(0)) {}
  };
  RUSH_FN void finish(const BatchNormArgs& a, i64 c, Sums<C> s, const Known& known) const {
    const auto [mean, var] = result(a, s);
    typed<C>(a.mean_out)[c] = mean;
    typed<C>(a.var_out)[c] = var;
    const C n = C(a.rows), rate = C(a.momentum);
    if (a.running_mean)
      typed<W>(a.running_mean)[c] = convert<W>(math::fma(rate, mean, (1 - rate) * known.mean));
    if (a.running_var)
      typed<W>(a.running_var)[c] =
          convert<W>(math::fma(rate, var * (n / (n - 1)), (1 - rate) * known.var));
    if (a.batches && c == 0) *a.batches += 1;
  }
};

// Sums of g and of g times the centred x.
template <class T, class W, class C>
struct GradSums : CentredSums<T, C> {
  RUSH_FN GradSums() {}
  RUSH_FN GradSums(const BatchNormArgs& a, i64 c) : CentredSums<T, C>{typed<C>(a.mean)[c]} {}
  struct Known {
    C var = 0;
    Known() = default;
    RUSH_FN Known(const BatchNormArgs& a, i64 c) : var(typed<C>(a.var)[c]) {}
  };
  RUSH_FN void finish(const BatchNormArgs& a, i64 c, Sums<C> s, const Known& known) const {
    const C rstd = C(1) / math::sqrt(known.var + C(a.eps));
    typed<C>(a.sums)[c] = s.first;
    typed<C>(a.sums)[a.channels + c] = s.second * rstd;
    if (a.gb) typed<W>(a.gb)[c] = convert<W>(s.first);
    if (a.gw) typed<W>(a.gw)[c] = convert<W>(s.second * rstd);
  }
};

// ---- joining ----

// Channels-last: the blocks that blockIdx.y numbers share the rows.
RUSH_FN RowShare share_of_rows(const BatchNormArgs& a) {
  return {0, a.rows, int(threadIdx.x) / a.columns, kThreads / a.columns, blockIdx.y, gridDim.y};
}

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

// What the end of V channels has to know: read before the first is written, and while sums are joined.
template <class Kind, int V>
struct KnownOfChannels {
  typename Kind::Known v[V];
  RUSH_FN KnownOfChannels(const BatchNormArgs& a, i64 first, bool works) {
#pragma unroll
    for (int k = 0; works && k < V; ++k) v[k] = typename Kind::Known(a, first + k);
  }
};
template <class Kind, class C, int V>
RUSH_FN void end_channels(const BatchNormArgs& a, const Kind (&kinds)[V],
                          const PackSums<C, V>& sums, i64 first,
                          const KnownOfChannels<Kind, V>& known) {
#pragma unroll
  for (int k = 0; k < V; ++k) kinds[k].finish(a, first + k, sums.v[k], known.v[k]);
}

// Joins the block's sums with the others', and, in the last block, ends the channels.
template <class Kind, class C, int V>
RUSH_FN void finish_channels(const BatchNormArgs& a, const Kind (&kinds)[V], PackSums<C, V>& mine,
                             i64 first, int lane, int lanes) {
  join_lanes(mine, lane, lanes);
  if (gridDim.y > 1) {
    put_partial(a, mine, first, lane);
    if (!comes_last(a.counters + blockIdx.x, gridDim.y)) return;
  }
  const bool ends = lane == 0 && first < a.channels;
  const KnownOfChannels<Kind, V> known(a, first, ends);
  if (gridDim.y > 1) mine = join_partials<C, V>(a, first, lane, lanes);
  if (ends) end_channels(a, kinds, mine, first, known);
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
  RUSH_FN T operator()(T x, T) const {
    return convert<T>(math::fma(convert<C>(x) - mean, scale, shift));
  }
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
    return convert<T>(scale * math::fma(mean - convert<C>(x), along, convert<C>(g) - plain));
  }
};

}  // namespace rush
