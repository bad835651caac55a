// row_norm.cu: normalisation over rows: layer norm, and RMS norm, which is not centred.
//
// - A team of threads takes a row. A row of up to `Held` packs per thread is read once and kept in
//   registers; a longer one is read again, which the caches serve.
// - The sums over all rows that the backward pass needs are formed in segments, one per block, and
//   joined in order: no atomics, so the same numbers come out every time.
// - T is the type of x, y and their gradients, W that of weight and bias, C what is computed in and
//   what statistics are kept in. Weight and bias are read in packs of as many elements as x is:
//   one by one they would keep a processor busier than x itself.
#include "cuda/kernels/norm_rows.h"

namespace rush {

// For the backward pass.
template <bool centred, class C>
RUSH_FN void keep_statistics(const RowNormArgs& args, i64 row, C mean, C rstd) {
  if (centred) typed<C>(args.mean)[row] = mean;
  typed<C>(args.rstd)[row] = rstd;
}
template <bool centred, class C>
RUSH_FN Statistics<C> kept_statistics(const RowNormArgs& args, i64 row) {
  return {centred ? typed<C>(args.mean)[row] : C(0), typed<C>(args.rstd)[row]};
}

// A pack of the row, normalised, to its place.
template <class C, class W, class T, int V>
RUSH_FN void write_normal(const RowNormArgs& args, Pack<T, V> pack, i64 row, i64 i, C mean,
                          C rstd) {
  C weight[V], bias[V];
  load_parameters<W>(args.weight, i, C(1), weight);
  load_parameters<W>(args.bias, i, C(0), bias);
  normalize_pack(pack, mean, rstd, weight, bias);
  store_pack(typed<T>(args.y) + row + i, pack);
}

template <class C, class T, class W, int Team, int V, int Held, bool centred>
__global__ void __launch_bounds__(kThreads) row_norm_held(RowNormArgs args) {
  after_earlier();
  const TeamRow<Team> team(args);
  HeldPacks<T, Team, V, Held> x;
  x.load(typed<T>(args.x) + team.at, team.lane, team.width);
  const Statistics<C> s =
      statistics_of<C, centred>(x, team.lane, team.width, C(args.width), C(args.eps));
  x.each(team.lane, team.width,
         [&](int k, i64 i) { write_normal<C, W>(args, x.p[k], team.at, i, s.mean, s.rstd); });
  if (team.lane == 0 && team.width > 0) keep_statistics<centred>(args, team.row, s.mean, s.rstd);
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
    write_normal<C, W>(args, load_pack<V>(x + i), team.at, i, mean, rstd);
  if (team.lane == 0 && team.width > 0) keep_statistics<centred>(args, team.row, mean, rstd);
}

// ---- backward ----

// What gx needs of its row: the means of w g, and of w g times the normalised x.
template <bool centred, int Team, class C>
RUSH_FN PairSum<C> means_of_row(PairSum<C> sum, i64 width) {
  sum = join_team<Team>(sum, JoinPairs{});
  return {centred ? sum.plain / C(width) : C(0), sum.along / C(width)};
}

// gx of a pack, to its place.
template <class C, class T, int V>
RUSH_FN void write_input_grad(T* to, Pack<T, V> x, const Pack<T, V>& g, const C (&weight)[V],
                              const Statistics<C>& s, const PairSum<C>& means) {
#pragma unroll
  for (int j = 0; j < V; ++j) {
    const C normal = (convert<C>(x.v[j]) - s.mean) * s.rstd, wg = convert<C>(g.v[j]) * weight[j];
    x.v[j] = convert<T>(s.rstd * (wg - means.plain - normal * means.along));
  }
  store_pack(to, x);
}

template <class C, class T, class W, int Team, int V, bool centred>
__global__ void __launch_bounds__(kThreads) row_norm_backward(RowNormArgs args) {
  after_earlier();
  const TeamRow<Team> team(args);
  const T *x = typed<T>(args.x) + team.at, *g = typed<T>(args.g) + team.at;
  const Statistics<C> s = kept_statistics<centred, C>(args, team.known);
  PairSum<C> sum{0, 0};
  for (i64 i = i64(team.lane) * V; i < team.width; i += i64(Team) * V) {
    const Pack<T, V> a = load_pack<V>(x + i), b = load_pack<V>(g + i);
    C weight[V];
    load_parameters<W>(args.weight, i, C(1), weight);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const C wg = convert<C>(b.v[j]) * weight[j];
      sum.plain += wg;
      sum.along += wg * (convert<C>(a.v[j]) - s.mean) * s.rstd;
    }
  }
  const PairSum<C> means = means_of_row<centred, Team>(sum, args.width);
  T* gx = typed<T>(args.y) + team.at;
  for (i64 i = i64(team.lane) * V; i < team.width; i += i64(Team) * V) {
    C weight[V];
    load_parameters<W>(args.weight, i, C(1), weight);
    write_input_grad(gx + i, load_pack<V>(x + i), load_pack<V>(g + i), weight, s, means);
  }
}

// A row of x and g that a team keeps, with its statistics.
template <class C, class T, int Team, int V, int Held, bool centred>
struct HeldPair {
  HeldPacks<T, Team, V, Held> x, g;
  Statistics<C> s{0, 0};
  RUSH_FN void load(const RowNormArgs& args, i64 row) {
    if (row >= args.rows) return;
    const int lane = threadIdx.x % Team;
    x.load(typed<T>(args.x) + row * args.width, lane, args.width);
    g.load(typed<T>(args.g) + row * args.width, lane, args.width);
    s = kept_statistics<centred, C>(args, row);
  }
};

// The sums of a block's teams, joined in their order; the first team has the result.
template <int Team, int Count, class C>
RUSH_FN void join_teams(C (&plain)[Count], C (&along)[Count]) {
  constexpr int teams = kThreads / Team;
  if constexpr (teams > 1) {
    __shared__ PairSum<C> all[teams][Team];
    const int lane = threadIdx.x % Team, team = threadIdx.x / Team;
#pragma unroll
    for (int k = 0; k < Count; ++k) {
      __syncthreads();  // the readers of the last turn are done
      all[team][lane] = {plain[k], along[k]};
      __syncthreads();
      if (team > 0) continue;
      PairSum<C> sum = all[0][lane];
      for (int t = 1; t < teams; ++t) sum = JoinPairs{}(sum, all[t][lane]);
      plain[k] = sum.plain, along[k] = sum.along;
    }
  }
}

// The same with the sums down the columns: a team goes through rows, and its threads keep the sums
// of their own columns: [block][2][width]. x and g are read once. Where a team is the block, the
// next row is under way while one is worked on: few blocks have room beside each other, and would
// wait for memory.
template <class C, class T, class W, int Team, int V, int Held, bool centred>
__global__ void __launch_bounds__(kThreads, Team == kThreads || sizeof(T) == 2 ? kRowNormBlocks : 1)
    row_norm_backward_whole(RowNormArgs args) {
  after_earlier();
  constexpr bool ahead = Team == kThreads;
  const int lane = threadIdx.x % Team;
  using Rows = HeldPair<C, T, Team, V, Held, centred>;
  C plain_sums[Held * V] = {}, along_sums[Held * V] = {};
  Rows own;
  const i64 step = i64(gridDim.x) * (kThreads / Team);
  i64 row = team_row<Team>();
  if constexpr (ahead) own.load(args, row);
  for (; row < args.rows; row += step) {
    Rows next;
    if constexpr (ahead)
      next.load(args, row + step);
    else
      own.load(args, row);
    PairSum<C> sum{0, 0};
    own.x.each(lane, args.width, [&](int k, i64 i) {
      C weight[V];
      load_parameters<W>(args.weight, i, C(1), weight);
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const C normal = (convert<C>(own.x.p[k].v[j]) - own.s.mean) * own.s.rstd;
        const C g = convert<C>(own.g.p[k].v[j]), wg = g * weight[j];
        plain_sums[k * V + j] += g;
        along_sums[k * V + j] += g * normal;
        sum.plain += wg;
        sum.along += wg * normal;
      }
    });
    const PairSum<C> means = means_of_row<centred, Team>(sum, args.width);
    T* gx = typed<T>(args.y) + row * args.width;
    own.x.each(lane, args.width, [&](int k, i64 i) {
      C weight[V];
      load_parameters<W>(args.weight, i, C(1), weight);
      write_input_grad(gx + i, own.x.p[k], own.g.p[k], weight, own.s, means);
    });
    if constexpr (ahead) own = next;
  }
  join_teams<Team>(plain_sums, along_sums);
  if (threadIdx.x >= Team) return;
  C* out = typed<C>(args.partial) + i64(blockIdx.x) * 2 * args.width;
  own.x.each(lane, args.width, [&](int k, i64 i) {
#pragma unroll
    for (int j = 0; j < V; ++j) {
      out[i + j] = plain_sums[k * V + j];
      out[args.width + i + j] = along_sums[k * V + j];
    }
  });
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
  PairSum<C> sum{0, 0};
#pragma unroll 4
  for (i64 s = threadIdx.x / columns; s < args.segments && c < args.channels; s += lanes) {
    const C* part = typed<C>(args.partial) + s * 2 * args.channels + c;
    sum = JoinPairs{}(sum, {part[0], part[args.channels]});
  }
  sum = join_column<lanes>(sum, JoinPairs{});
  if (threadIdx.x >= columns || c >= args.channels) return;
  if (args.gb) typed<W>(args.gb)[c] = convert<W>(sum.plain);
  if (args.gw) typed<W>(args.gw)[c] = convert<W>(sum.along);
}

}  // namespace rush
