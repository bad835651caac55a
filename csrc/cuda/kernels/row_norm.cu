// row_norm.cu: normalisation over rows (layer norm, and RMS norm, which is not centred) and over
// groups of channels (group and instance norm).
//
// - A team of threads takes a row. A row of up to `Held` packs per thread is read once and kept in
//   registers; a longer one is read again, which the caches serve.
// - The sums over all rows that the backward pass needs are formed in segments, one a block, and
//   joined in order: no atomics, so the same numbers come out every time.
// - T is the type of x, y and their gradients, W that of weight and bias, C what is computed in and
//   what statistics are kept in.
#include "cuda/kernels/held_row.h"
#include "cuda/kernels/team.h"
#include "functors/math.h"

namespace rush {

// weight and bias, where there are any
template <class C, class W>
RUSH_FN C scaled(C v, const void* weight, const void* bias, i64 i) {
  if (weight) v *= convert<C>(typed<W>(weight)[i]);
  if (bias) v += convert<C>(typed<W>(bias)[i]);
  return v;
}
template <class C, class W>
RUSH_FN C weighed(C g, const void* weight, i64 i) {
  return weight ? g * convert<C>(typed<W>(weight)[i]) : g;
}

// Calls f(element, i) for the elements of a row that are this thread's.
template <int Team, int V, class C, class T, class F>
RUSH_FN void read_row(const T* row, int lane, i64 width, F f) {
  for (i64 i = i64(lane) * V; i < width; i += i64(Team) * V) {
    const Pack<T, V> pack = load_pack<V>(row + i);
#pragma unroll
    for (int j = 0; j < V; ++j) f(convert<C>(pack.v[j]), i + j);
  }
}
// out[i] = f(row[i], i)
template <int Team, int V, class C, class T, class F>
RUSH_FN void map_row(const T* row, T* out, int lane, i64 width, F f) {
  for (i64 i = i64(lane) * V; i < width; i += i64(Team) * V) {
    Pack<T, V> pack = load_pack<V>(row + i);
#pragma unroll
    for (int j = 0; j < V; ++j) pack.v[j] = convert<T>(f(convert<C>(pack.v[j]), i + j));
    store_pack(out + i, pack);
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

// ---- rows ----

// For the backward pass.
template <bool centred, class C>
RUSH_FN void keep_statistics(const RowNormArgs& args, i64 row, C mean, C rstd) {
  if (centred) typed<C>(args.mean)[row] = mean;
  typed<C>(args.rstd)[row] = rstd;
}

template <class C, class T, class W, int Team, int V, int Held, bool centred>
__global__ void __launch_bounds__(kThreads) row_norm_held(RowNormArgs args) {
  after_earlier();
  const TeamRow<Team> team(args);
  HeldRow<C, T, Team, V, Held> x;
  x.load(typed<T>(args.x) + team.at, team.lane, team.width);
  const C n = C(args.width);
  C mean = 0, squares = 0;
  if constexpr (centred) {
    C sum = 0;
    x.each(team.lane, team.width, [&](int k, i64) {
#pragma unroll
      for (int j = 0; j < V; ++j) sum += x.v[k + j];
    });
    mean = join_team<Team>(sum, JoinSum{}) / n;
  }
  x.each(team.lane, team.width, [&](int k, i64) {
#pragma unroll
    for (int j = 0; j < V; ++j) squares += (x.v[k + j] - mean) * (x.v[k + j] - mean);
  });
  const C rstd = C(1) / math::sqrt(join_team<Team>(squares, JoinSum{}) / n + C(args.eps));
  x.each(team.lane, team.width, [&](int k, i64 i) {
#pragma unroll
    for (int j = 0; j < V; ++j)
      x.v[k + j] = scaled<C, W>((x.v[k + j] - mean) * rstd, args.weight, args.bias, i + j);
  });
  x.store(typed<T>(args.y) + team.at, team.lane, team.width, [](C v, int) { return v; });
  if (team.lane == 0 && team.width > 0) keep_statistics<centred>(args, team.row, mean, rstd);
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
    read_row<Team, V, C>(x, team.lane, team.width, [&](C v, i64) { squares += v * v; });
    squares = join_team<Team>(squares, JoinSum{});
  }
  const C rstd = C(1) / math::sqrt(squares / n + C(args.eps));
  map_row<Team, V, C>(x, typed<T>(args.y) + team.at, team.lane, team.width, [&](C v, i64 i) {
    return scaled<C, W>((v - mean) * rstd, args.weight, args.bias, i);
  });
  if (team.lane == 0 && team.width > 0) keep_statistics<centred>(args, team.row, mean, rstd);
}

template <class C, class T, class W, int Team, int V, bool centred>
__global__ void __launch_bounds__(kThreads) row_norm_backward(RowNormArgs args) {
  after_earlier();
  const TeamRow<Team> team(args);
  const T *x = typed<T>(args.x) + team.at, *g = typed<T>(args.g) + team.at;
  const C mean = centred ? typed<C>(args.mean)[team.known] : C(0),
          rstd = typed<C>(args.rstd)[team.known];
  PairSum<C> sum{0, 0};  // of w g, and of w g times the normalised x
  for (i64 i = i64(team.lane) * V; i < team.width; i += i64(Team) * V) {
    const Pack<T, V> a = load_pack<V>(x + i), b = load_pack<V>(g + i);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const C wg = weighed<C, W>(convert<C>(b.v[j]), args.weight, i + j);
      sum.plain += wg;
      sum.along += wg * (convert<C>(a.v[j]) - mean) * rstd;
    }
  }
  sum = join_team<Team>(sum, JoinPairs{});
  const C plain = centred ? sum.plain / C(args.width) : C(0), along = sum.along / C(args.width);
  T* gx = typed<T>(args.y) + team.at;
  for (i64 i = i64(team.lane) * V; i < team.width; i += i64(Team) * V) {
    Pack<T, V> a = load_pack<V>(x + i);
    const Pack<T, V> b = load_pack<V>(g + i);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const C wg = weighed<C, W>(convert<C>(b.v[j]), args.weight, i + j);
      a.v[j] = convert<T>(rstd * (wg - plain - (convert<C>(a.v[j]) - mean) * rstd * along));
    }
    store_pack(gx + i, a);
  }
}

// The same with the sums down the columns: a block goes through rows, and its threads keep the sums
// of their own columns: [block][2][width]. x and g are read once.
template <class C, class T, class W, int V, int Held, bool centred>
__global__ void __launch_bounds__(kThreads) row_norm_backward_whole(RowNormArgs args) {
  after_earlier();
  const int lane = threadIdx.x;
  using Row = HeldRow<C, T, kThreads, V, Held>;
  C plain_sums[Held * V] = {}, along_sums[Held * V] = {};
  for (i64 row = blockIdx.x; row < args.rows; row += gridDim.x) {
    const i64 at = row * args.width;
    const C mean = centred ? typed<C>(args.mean)[row] : C(0), rstd = typed<C>(args.rstd)[row];
    Row x, g;
    x.load(typed<T>(args.x) + at, lane, args.width);
    g.load(typed<T>(args.g) + at, lane, args.width);
    PairSum<C> sum{0, 0};
    Row::each(lane, args.width, [&](int k, i64 i) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        C &normal = x.v[k + j], &own = g.v[k + j];
        normal = (normal - mean) * rstd;
        plain_sums[k + j] += own;
        along_sums[k + j] += own * normal;
        own = weighed<C, W>(own, args.weight, i + j);
        sum.plain += own;
        sum.along += own * normal;
      }
    });
    sum = join_team<kThreads>(sum, JoinPairs{});
    const C plain = centred ? sum.plain / C(args.width) : C(0), along = sum.along / C(args.width);
    x.store(typed<T>(args.y) + at, lane, args.width,
            [&](C normal, int k) { return rstd * (g.v[k] - plain - normal * along); });
  }
  C* out = typed<C>(args.partial) + i64(blockIdx.x) * 2 * args.width;
  Row::each(lane, args.width, [&](int k, i64 i) {
#pragma unroll
    for (int j = 0; j < V; ++j) {
      out[i + j] = plain_sums[k + j];
      out[args.width + i + j] = along_sums[k + j];
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
  for (i64 s = threadIdx.x / columns; s < args.segments && c < args.channels; s += lanes) {
    const C* part = typed<C>(args.partial) + s * 2 * args.channels + c;
    sum = JoinPairs{}(sum, {part[0], part[args.channels]});
  }
  sum = join_column<lanes>(sum, JoinPairs{});
  if (threadIdx.x >= columns || c >= args.channels) return;
  if (args.gb) typed<W>(args.gb)[c] = convert<W>(sum.plain);
  if (args.gw) typed<W>(args.gw)[c] = convert<W>(sum.along);
}

// ---- groups: (batch, channels, inner) contiguous; a row is one group of one sample ----

// A block takes a row.
template <class C, class T, class W, int V>
__global__ void __launch_bounds__(kThreads) group_norm(GroupNormArgs args) {
  after_earlier();
  const i64 row = blockIdx.x, group = row % args.groups;
  const i64 inner = args.inner, per_group = args.channels / args.groups, width = per_group * inner;
  const T* x = typed<T>(args.x) + row * width;
  const RowMoments<C> moments = moments_of_row<kThreads, V, C>(x, threadIdx.x, width);
  const C mean = moments.mean;
  const C rstd = C(1) / math::sqrt(moments.squares / C(width) + C(args.eps));
  const i64 first = group * per_group;
  map_row<kThreads, V, C>(x, typed<T>(args.y) + row * width, threadIdx.x, width, [&](C v, i64 i) {
    return scaled<C, W>((v - mean) * rstd, args.weight, args.bias, first + i / inner);
  });
  if (threadIdx.x == 0) {
    typed<C>(args.mean)[row] = mean;
    typed<C>(args.rstd)[row] = rstd;
  }
}

// Few long rows: the means are known, and `rstd` holds variances; blockIdx.y takes a part of the
// row. A second launch (group_norm_finish) turns them into what they are called.
template <class C, class T, class W>
__global__ void __launch_bounds__(kThreads) group_norm_apply(GroupNormArgs args) {
  after_earlier();
  const i64 row = blockIdx.x, group = row % args.groups;
  const i64 inner = args.inner, per_group = args.channels / args.groups, width = per_group * inner;
  const C mean = typed<C>(args.mean)[row];
  const C rstd = C(1) / math::sqrt(typed<C>(args.rstd)[row] + C(args.eps));
  for (i64 i = i64(blockIdx.y) * kThreads + threadIdx.x; i < width;
       i += i64(gridDim.y) * kThreads) {
    const C v = (convert<C>(typed<T>(args.x)[row * width + i]) - mean) * rstd;
    typed<T>(args.y)[row * width + i] =
        convert<T>(scaled<C, W>(v, args.weight, args.bias, group * per_group + i / inner));
  }
}
template <class C>
__global__ void __launch_bounds__(kThreads) group_norm_finish(GroupNormArgs args) {
  after_earlier();
  C* rstd = typed<C>(args.rstd);
  for (i64 r = thread_number(); r < args.batch * args.groups; r += thread_count())
    rstd[r] = C(1) / math::sqrt(rstd[r] + C(args.eps));
}

// Of each plane (a channel of a sample) the sums of g, and of g times the normalised x:
// [batch][2][channels].
template <class C, class T, int Team>
__global__ void __launch_bounds__(kThreads) group_norm_planes(GroupNormArgs args) {
  after_earlier();
  const int lane = threadIdx.x % Team;
  const i64 plane = team_row<Team>();
  const bool works = plane < args.batch * args.channels;
  const i64 sample = works ? plane / args.channels : 0, channel = plane - sample * args.channels;
  const i64 row = sample * args.groups + (works ? channel / (args.channels / args.groups) : 0);
  const C mean = typed<C>(args.mean)[row], rstd = typed<C>(args.rstd)[row];
  PairSum<C> sum{0, 0};
  for (i64 i = lane; works && i < args.inner; i += Team) {
    const C g = convert<C>(typed<T>(args.g)[plane * args.inner + i]);
    sum.plain += g;
    sum.along += g * (convert<C>(typed<T>(args.x)[plane * args.inner + i]) - mean) * rstd;
  }
  sum = join_team<Team>(sum, JoinPairs{});
  if (!works || lane != 0) return;
  C* out = typed<C>(args.partial) + sample * 2 * args.channels + channel;
  out[0] = sum.plain;
  out[args.channels] = sum.along;
}

// gx from the planes' sums; blockIdx.x a row, blockIdx.y a part of it.
template <class C, class T, class W>
__global__ void __launch_bounds__(kThreads) group_norm_backward(GroupNormArgs args) {
  after_earlier();
  const i64 row = blockIdx.x, sample = row / args.groups, group = row - sample * args.groups;
  const i64 inner = args.inner, per_group = args.channels / args.groups, width = per_group * inner;
  const i64 first = group * per_group;
  const C* part = typed<C>(args.partial) + sample * 2 * args.channels + first;
  PairSum<C> sum{0, 0};
  for (i64 c = threadIdx.x; c < per_group; c += kThreads) {
    sum.plain += weighed<C, W>(part[c], args.weight, first + c);
    sum.along += weighed<C, W>(part[args.channels + c], args.weight, first + c);
  }
  sum = join_team<kThreads>(sum, JoinPairs{});
  const C plain = sum.plain / C(width), along = sum.along / C(width);
  const C mean = typed<C>(args.mean)[row], rstd = typed<C>(args.rstd)[row];
  for (i64 i = i64(blockIdx.y) * kThreads + threadIdx.x; i < width;
       i += i64(gridDim.y) * kThreads) {
    const i64 at = row * width + i;
    const C wg = weighed<C, W>(convert<C>(typed<T>(args.g)[at]), args.weight, first + i / inner);
    const C normal = (convert<C>(typed<T>(args.x)[at]) - mean) * rstd;
    typed<T>(args.y)[at] = convert<T>(rstd * (wg - plain - normal * along));
  }
}

}  // namespace rush
