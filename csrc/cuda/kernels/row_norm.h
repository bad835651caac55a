// row_norm.h (NVRTC): normalisation of rows that a team of threads keeps in its registers. Where the
// rows come from and where results go is the caller's: memory (row_norm.cu), or pointwise steps
// (fused_rows.h).
#pragma once

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
template <class C, class W, class T, int V, class Rows>
RUSH_FN void write_normal(const RowNormArgs& args, const Rows& rows, const KeptPack<T, V>& pack,
                          const RowPlace& place, C mean, C rstd) {
  C weight[V], bias[V];
  load_parameters<W>(args.weight, place.i, C(1), weight);
  load_parameters<W>(args.bias, place.i, C(0), bias);
  rows.template y<V>(place, normal_pack<T>(widen<C>(pack), mean, rstd, weight, bias));
}

template <class C, class T, class W, int Team, int V, int Held, bool centred, class Rows>
RUSH_FN void normalize_held(const RowNormArgs& args, const Rows& rows) {
  const TeamRow<Team> team(args);
  HeldPacks<T, Team, V, Held> x;
  x.each(team.lane, team.width,
         [&](int k, i64 i) { x.p[k] = rows.template x<V>(RowPlace{team.known, team.at, i}); });
  const Statistics<C> s =
      statistics_of<C, centred>(x, team.lane, team.width, C(args.width), C(args.eps));
  x.each(team.lane, team.width, [&](int k, i64 i) {
    write_normal<C, W>(args, rows, x.p[k], RowPlace{team.known, team.at, i}, s.mean, s.rstd);
  });
  if (team.lane == 0 && team.width > 0) keep_statistics<centred>(args, team.row, s.mean, s.rstd);
}

// ---- backward ----

// What gx needs of its row: the means of w g, and of w g times the normalised x.
template <bool centred, int Team, class C>
RUSH_FN PairSum<C> means_of_row(PairSum<C> sum, i64 width) {
  sum = join_team<Team>(sum, JoinPairs{});
  return {centred ? sum.plain / C(width) : C(0), sum.along / C(width)};
}

// a b, which the compiler does not contract with a sum.
template <class C>
RUSH_FN C rounded_product(C a, C b) {
#ifdef RUSH_DEVICE
  if constexpr (sizeof(C) == 4) return __fmul_rn(a, b);
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

// gx of a pack.
template <class C, class T, int V>
RUSH_FN Pack<T, V> input_grad(const KeptPack<T, V>& xs, const KeptPack<T, V>& gs,
                              const C (&weight)[V], const Statistics<C>& s,
                              const PairSum<C>& means) {
  const Pack<C, V> x = widen<C>(xs), g = widen<C>(gs);
  const C along = s.rstd * s.rstd * means.along;
  Pack<T, V> out;
#pragma unroll
  for (int j = 0; j < V; ++j) {
    // Rounded by itself, as in the mean: the gradient of a row of equal numbers is a difference that
    // has to vanish, and rstd is large there.
    const C wg = rounded_product(g.v[j], weight[j]);
    out.v[j] = convert<T>(s.rstd * (wg - means.plain) - along * (x.v[j] - s.mean));
  }
  return out;
}

// A row of x and g that a team keeps, with its statistics.
template <class C, class T, int Team, int V, int Held, bool centred>
struct HeldPair {
  HeldPacks<T, Team, V, Held> x, g;
  Statistics<C> s{0, 0};
  template <class From>
  RUSH_FN void load(const RowNormArgs& args, const From& from, i64 row) {
    if (row >= args.rows) return;
    const int lane = threadIdx.x % Team;
    const i64 at = row * args.width;
    x.each(lane, args.width,
           [&](int k, i64 i) { x.p[k] = from.template x<V>(RowPlace{row, at, i}); });
    g.each(lane, args.width,
           [&](int k, i64 i) { g.p[k] = from.template g<V>(RowPlace{row, at, i}); });
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

// How normalize_backward_whole is compiled for a type and a team, by what was measured on an H200:
// blocks that are to have room beside each other, and whether the next row is under way while one
// is worked on. (That takes registers; without, others have to work while a team waits for memory.
// On its way to shared memory the next row takes none, and all is slower by some percent.)
template <class T, int Team>
struct WholeShape {
  static constexpr bool ahead = Team > 32;
  static constexpr int blocks = Team > 32 || sizeof(T) == 2 ? kRowNormBlocks : 1;
};

// All gradients: a team goes through rows, and its threads keep the sums
// of their own columns: [block][2][width]. x and g are read once. All teams of a block take as many
// rows, since they meet at barriers; beyond the last row there is nothing to do.
template <class C, class T, class W, int Team, int V, int Held, bool centred, class From>
RUSH_FN void normalize_backward_whole(const RowNormArgs& args, const From& from) {
  constexpr bool ahead = WholeShape<T, Team>::ahead;
  constexpr int teams = kThreads / Team;
  const int lane = threadIdx.x % Team, team = threadIdx.x / Team;
  using Rows = HeldPair<C, T, Team, V, Held, centred>;
  C plain_sums[Held * V] = {}, along_sums[Held * V] = {};
  Rows own;
  const i64 step = i64(gridDim.x) * teams;
  i64 first = i64(blockIdx.x) * teams;
  if constexpr (ahead) own.load(args, from, first + team);
  for (; first < args.rows; first += step) {
    const i64 row = first + team, width = row < args.rows ? args.width : 0;
    Rows next;
    if constexpr (ahead)
      next.load(args, from, row + step);
    else
      own.load(args, from, row);
    PairSum<C> sum{0, 0};
    own.x.each(lane, width, [&](int k, i64 i) {
      C weight[V];
      load_parameters<W>(args.weight, i, C(1), weight);
      const Pack<C, V> x = widen<C>(own.x.p[k]), gs = widen<C>(own.g.p[k]);
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const C normal = (x.v[j] - own.s.mean) * own.s.rstd;
        const C g = gs.v[j], wg = g * weight[j];
        plain_sums[k * V + j] += g;
        along_sums[k * V + j] += g * normal;
        sum.plain += wg;
        sum.along += wg * normal;
      }
    });
    const PairSum<C> means = means_of_row<centred, Team>(sum, args.width);
    own.x.each(lane, width, [&](int k, i64 i) {
      C weight[V];
      load_parameters<W>(args.weight, i, C(1), weight);
      from.template y<V>(RowPlace{row, row * args.width, i},
                         input_grad(own.x.p[k], own.g.p[k], weight, own.s, means));
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

}  // namespace rush
