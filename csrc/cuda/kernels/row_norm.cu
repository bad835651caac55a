// row_norm.cu: normalisation over rows: layer norm, and RMS norm, which is not centred.
//
// - A team of threads takes a row. A row of up to `Held` packs per thread is read once and kept in
//   registers; a longer one is read again, which the caches serve.
// - The sums over all rows that the backward pass needs are formed in segments, one per block, and
//   joined in order: no atomics, so the same numbers come out every time.
// - T is the type of x, y and their gradients, W that of weight and bias, C what is computed in and
//   what statistics are kept in. Weight and bias are read in packs of as many elements as x is:
//   one by one they would keep a processor busier than x itself.
#include "cuda/kernels/row_norm.h"

namespace rush {

template <class C, class T, class W, int Team, int V, int Held, bool centred>
__global__ void __launch_bounds__(kThreads) row_norm_held(RowNormArgs args) {
  after_earlier();
  normalize_held<C, T, W, Team, V, Held, centred>(args, RowsInMemory<T, RowNormArgs>{args});
}

template <class C, class T, class W, int Team, int V, bool centred>
__global__ void __launch_bounds__(kThreads) row_norm(RowNormArgs args) {
  after_earlier();
  const TeamRow<Team> team(args);
  const T* x = typed<T>(args.x) + team.at;
  const C n = C(args.width);
  C mean = 0, squares = 0;
  if constexpr (centred) {
    const RowMoments<C> moments = moments_of_row<Team, V, C>(x, team.lane, team.width);
    mean = moments.mean, squares = moments.squares;
  } else {
    for (i64 i = i64(team.lane) * V; i < team.width; i += i64(Team) * V) {
      const Pack<T, V> pack = load_pack<V>(x + i);
#pragma unroll
      for (int j = 0; j < V; ++j) squares += convert<C>(pack.v[j]) * convert<C>(pack.v[j]);
    }
    squares = join_team<Team>(squares, JoinSum{});
  }
  const C rstd = C(1) / math::sqrt(squares / n + C(args.eps));
  for (i64 i = i64(team.lane) * V; i < team.width; i += i64(Team) * V)
    write_normal<C, W>(args, RowsInMemory<T, RowNormArgs>{args}, KeptPack<T, V>(x + i),
                       RowPlace{team.known, team.at, i}, mean, rstd);
  if (team.lane == 0 && team.width > 0) keep_statistics<centred>(args, team.row, mean, rstd);
}

// ---- backward ----

template <class C, class T, class W, int Team, int V, bool centred>
__global__ void __launch_bounds__(kThreads) row_norm_backward(RowNormArgs args) {
  after_earlier();
  const TeamRow<Team> team(args);
  const T *x = typed<T>(args.x) + team.at, *g = typed<T>(args.g) + team.at;
  const Statistics<C> s = kept_statistics<centred, C>(args, team.known);
  PairSum<C> sum{0, 0};
  for (i64 i = i64(team.lane) * V; i < team.width; i += i64(Team) * V) {
    const auto a = widen<C>(KeptPack<T, V>(x + i)), b = widen<C>(KeptPack<T, V>(g + i));
    C weight[V];
    load_parameters<W>(args.weight, i, C(1), weight);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const C wg = b.v[j] * weight[j];
      sum.plain += wg;
      sum.along += wg * (a.v[j] - s.mean) * s.rstd;
    }
  }
  const PairSum<C> means = means_of_row<centred, Team>(sum, args.width);
  T* gx = typed<T>(args.y) + team.at;
  for (i64 i = i64(team.lane) * V; i < team.width; i += i64(Team) * V) {
    C weight[V];
    load_parameters<W>(args.weight, i, C(1), weight);
    store_pack(gx + i, input_grad(KeptPack<T, V>(x + i), KeptPack<T, V>(g + i), weight, s, means));
  }
}

template <class C, class T, class W, int Team, int V, int Held, bool centred>
__global__ void __launch_bounds__(kThreads, (WholeShape<T, Team>::blocks))
    row_norm_backward_whole(RowNormArgs args) {
  after_earlier();
  normalize_backward_whole<C, T, W, Team, V, Held, centred>(args,
                                                            RowsInMemory<T, RowNormArgs>{args});
}

// Sums of g, and of g times the normalised x, down the columns: [segment][2][width]. A block takes
// 32 columns by 8 lanes.
template <class C, class T, bool centred>
__global__ void __launch_bounds__(kThreads) row_norm_columns(RowNormArgs args) {
  after_earlier();
  constexpr int lanes = 8, columns = kThreads / lanes;
  const i64 col = i64(blockIdx.x) * columns + threadIdx.x % columns;
  const i64 begin = i64(blockIdx.y) * args.segment;
  const i64 end = begin + args.segment < args.rows ? begin + args.segment : args.rows;
  PairSum<C> sum{0, 0};
  for (i64 r = begin + threadIdx.x / columns; r < end && col < args.width; r += lanes) {
    const C g = convert<C>(typed<T>(args.g)[r * args.width + col]);
    const C mean = centred ? typed<C>(args.mean)[r] : C(0);
    const C x = convert<C>(typed<T>(args.x)[r * args.width + col]);
    sum.plain += g;
    sum.along += g * (x - mean) * typed<C>(args.rstd)[r];
  }
  sum = join_column<lanes>(sum, JoinPairs{});
  if (threadIdx.x >= columns || col >= args.width) return;
  C* out = typed<C>(args.partial) + i64(blockIdx.y) * 2 * args.width + col;
  out[0] = sum.plain;
  out[args.width] = sum.along;
}

// Joins segments in order: gb from the plain sums, gw from the others. Either may be null.
template <class C, class W>
__global__ void __launch_bounds__(kThreads) join_segments(JoinPairsArgs args) {
  after_earlier();
  constexpr int lanes = 8, columns = kThreads / lanes;
  const i64 c = i64(blockIdx.x) * columns + threadIdx.x % columns;
  const auto part = [&](i64 s) {
    const C* from = typed<C>(args.partial) + s * 2 * args.channels + c;
    return PairSum<C>{from[0], from[args.channels]};
  };
  PairSum<C> sum{0, 0};
  constexpr int kAtOnce = 8;  // loads under way, of either sum
  i64 s = c < args.channels ? threadIdx.x / columns : args.segments;
  for (; s + (kAtOnce - 1) * lanes < args.segments; s += kAtOnce * lanes) {
    PairSum<C> few[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) few[k] = part(s + k * lanes);
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) sum = JoinPairs{}(sum, few[k]);
  }
  for (; s < args.segments; s += lanes) sum = JoinPairs{}(sum, part(s));
  sum = join_column<lanes>(sum, JoinPairs{});
  if (threadIdx.x >= columns || c >= args.channels) return;
  if (args.gb) typed<W>(args.gb)[c] = convert<W>(sum.plain);
  if (args.gw) typed<W>(args.gw)[c] = convert<W>(sum.along);
}

}  // namespace rush
