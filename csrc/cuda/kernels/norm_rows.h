// norm_rows.h (NVRTC): what normalisations of rows and of groups share: parameters in packs, moments
// of a row, pairs of sums.
#pragma once

#include "cuda/kernels/held_row.h"
#include "cuda/kernels/team.h"
#include "functors/math.h"

namespace rush {

// V elements that lie side by side, read by instructions of at most 16 bytes; `missing` where there
// are none.
template <class W, class C, int V>
RUSH_FN void load_parameters(const void* from, i64 i, C missing, C (&to)[V]) {
  constexpr int n = V * int(sizeof(W)) <= 16 ? V : 16 / int(sizeof(W));
#pragma unroll
  for (int j = 0; j < V; j += n) {
    if (from) {
      const Pack<C, n> pack = widen<C>(KeptPack<W, n>(typed<W>(from) + i + j));
#pragma unroll
      for (int k = 0; k < n; ++k) to[j + k] = pack.v[k];
    } else {
#pragma unroll
      for (int k = 0; k < n; ++k) to[j + k] = missing;
    }
  }
}

template <class C>
struct PairSum {
  C plain, along;
};
struct JoinPairs {
  template <class C>
  RUSH_FN PairSum<C> operator()(const PairSum<C>& a, const PairSum<C>& b) const {
    return {a.plain + b.plain, a.along + b.along};
  }
};

// Count, mean and squared deviations, found in one pass; joined by Chan's formula.
template <class C>
struct RowMoments {
  C n, mean, squares;
  static RUSH_FN RowMoments none() { return {C(0), C(0), C(0)}; }

  template <class T, int V>
  RUSH_FN void add(const Pack<T, V>& pack) {
    C x[V], sum = 0, own = 0;
#pragma unroll
    for (int j = 0; j < V; ++j) sum += x[j] = convert<C>(pack.v[j]);
    const C middle = sum / C(V);
#pragma unroll
    for (int j = 0; j < V; ++j) own += (x[j] - middle) * (x[j] - middle);
    const C all = n + C(V), gap = middle - mean, share = C(V) / all;
    mean += gap * share;
    squares += own + gap * gap * n * share;
    n = all;
  }
};
struct JoinMoments {
  template <class C>
  RUSH_FN RowMoments<C> operator()(const RowMoments<C>& a, const RowMoments<C>& b) const {
    const C n = a.n + b.n, share = n > C(0) ? b.n / n : C(0), gap = b.mean - a.mean;
    return {n, a.mean + gap * share, a.squares + b.squares + gap * gap * a.n * share};
  }
};
template <int Team, int V, class C, class T>
RUSH_FN RowMoments<C> moments_of_row(const T* row, int lane, i64 width) {
  RowMoments<C> own = RowMoments<C>::none();
  for (i64 i = i64(lane) * V; i < width; i += i64(Team) * V) own.add(load_pack<V>(row + i));
  return join_team<Team>(own, JoinMoments{});
}

// Of n elements that a team holds, in two passes: their mean, and the sum of squared deviations from
// it (RMS norm: from 0).
template <class C>
struct HeldSums {
  C mean, squares;
};
template <class C, bool centred = true, class T, int Team, int V, int Held>
RUSH_FN HeldSums<C> sums_of_held(const HeldPacks<T, Team, V, Held>& x, int lane, i64 width, C n) {
  C mean = 0, squares = 0;
  if constexpr (centred) {
    C sum = 0;
    x.each(lane, width, [&](int k, i64) {
      const Pack<C, V> own = widen<C>(x.p[k]);
#pragma unroll
      for (int j = 0; j < V; ++j) sum += own.v[j];
    });
    mean = join_team<Team>(sum, JoinSum{}) / n;
  }
  x.each(lane, width, [&](int k, i64) {
    const Pack<C, V> own = widen<C>(x.p[k]);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const C gap = own.v[j] - mean;
      squares += gap * gap;
    }
  });
  return {mean, join_team<Team>(squares, JoinSum{})};
}
template <class C>
struct Statistics {
  C mean, rstd;
};
template <class C, bool centred, class T, int Team, int V, int Held>
RUSH_FN Statistics<C> statistics_of(const HeldPacks<T, Team, V, Held>& x, int lane, i64 width, C n,
                                    C eps) {
  const HeldSums<C> sums = sums_of_held<C, centred>(x, lane, width, n);
  return {sums.mean, C(1) / math::sqrt(sums.squares / n + eps)};
}

// (x[j] - mean) * rstd * weight[j] + bias[j]
template <class T, class C, int V>
RUSH_FN Pack<T, V> normal_pack(const Pack<C, V>& x, C mean, C rstd, const C (&weight)[V],
                               const C (&bias)[V]) {
  Pack<T, V> out;
#pragma unroll
  for (int j = 0; j < V; ++j) out.v[j] = convert<T>((x.v[j] - mean) * rstd * weight[j] + bias[j]);
  return out;
}

}  // namespace rush
