// channel_sums.h (NVRTC): rows of channels, which lie last in memory: two sums per channel, and what
// becomes of each element.
//
// A kind says what is added up, add(sums, x, g), or what is made of an element, kind(x, g); it `reads`
// one tensor or two.
#pragma once

#include "cuda/kernels/element.h"

namespace rush {

// Dividing 64 bits is slow, and hardly ever needed.
RUSH_FN i64 quotient(i64 a, i64 b) { return (a | b) >> 32 ? a / b : i64(u32(a) / u32(b)); }

template <class C>
struct Sums {
  C first = 0, second = 0;
};

template <class T>
RUSH_FN T middle(T a, T b, T c) {
  const T low = a < b ? a : b, high = a < b ? b : a;
  return c < low ? low : c > high ? high : c;
}

// Sums of x and of its square, both less a value that is typical for the channel: squares of what
// lies far from zero would swallow the differences.
template <class T, class C>
struct ShiftedSums {
  static constexpr int reads = 1;
  C pivot = 0;
  RUSH_FN void add(Sums<C>& to, T x, T) const {
    const C d = convert<C>(x) - pivot;
    to.first += d;
    to.second = math::fma(d, d, to.second);
  }
};

// Sums of g and of g times the centred x.
template <class T, class C>
struct CentredSums {
  static constexpr int reads = 2;
  C mean = 0;
  RUSH_FN void add(Sums<C>& to, T x, T g) const {
    const C wide = convert<C>(g);
    to.first += wide;
    to.second = math::fma(wide, convert<C>(x) - mean, to.second);
  }
};

// The sums of V channels.
template <class C, int V>
struct PackSums {
  Sums<C> v[V];
  RUSH_FN void add(const PackSums& other) {
#pragma unroll
    for (int k = 0; k < V; ++k) v[k].first += other.v[k].first, v[k].second += other.v[k].second;
  }
};

// Adds up over the threads with one column; lane 0 has the result. `lanes` is a power of two.
template <class C, int V>
RUSH_FN void join_lanes(PackSums<C, V>& mine, int lane, int lanes) {
  __shared__ PackSums<C, V> all[kThreads];
  __syncthreads();
  all[threadIdx.x] = mine;
  const int columns = kThreads / lanes;
  for (int half = lanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane < half) {
      mine.add(all[threadIdx.x + half * columns]);
      all[threadIdx.x] = mine;
    }
  }
}

// How threads share rows [begin, end): a block takes `lanes` times U of them at a time, side by side,
// of which each thread has U, `lanes` apart; the blocks that are `parts` take turns.
struct RowShare {
  i64 begin, end;
  int lane, lanes;
  i64 part = 0, parts = 1;

  // Calls f(row, count) for the first of `count` rows of this thread, at most U, in the order of memory;
  // or from the last to the first, if `back`: who went over them before has left the last ones in the
  // GPU's cache.
  template <int U, bool back, class F>
  RUSH_FN void each(F f) const {
    const i64 at_once = i64(U) * lanes, turns = quotient(end - begin + at_once - 1, at_once);
    for (i64 t = part; t < turns; t += parts) {
      const i64 row = begin + (back ? turns - 1 - t : t) * at_once + lane;
      const i64 left = end - row;
      f(row, left >= at_once ? U : left <= 0 ? 0 : int(left - 1) / lanes + 1);
    }
  }
};

// U rows, `step` elements apart: all are read before the first is added.
template <class Kind, int V, int U, class T, class C>
RUSH_FN void add_rows(const Kind (&kinds)[V], PackSums<C, V>& sums, const T* x, const T* g,
                      i64 step) {
  Pack<T, V> px[U], pg[U];
#pragma unroll
  for (int u = 0; u < U; ++u) {
    px[u] = pg[u] = load_pack<V>(x + u * step);
    if constexpr (Kind::reads > 1) pg[u] = load_pack<V>(g + u * step);
  }
#pragma unroll
  for (int u = 0; u < U; ++u)
#pragma unroll
    for (int v = 0; v < V; ++v) kinds[v].add(sums.v[v], px[u].v[v], pg[u].v[v]);
}

// The same for `count` rows: as many at once as powers of two, from Most on, go into that.
template <class Kind, int V, int Most, class T, class C>
RUSH_FN void add_some_rows(const Kind (&kinds)[V], PackSums<C, V>& sums, const T* x, const T* g,
                           i64 step, int count) {
  if (count >= Most) {
    add_rows<Kind, V, Most>(kinds, sums, x, g, step);
    count -= Most, x += Most * step, g += Most * step;
  }
  if constexpr (Most > 1)
    if (count > 0) add_some_rows<Kind, V, Most / 2>(kinds, sums, x, g, step, count);
}

// Rows that a thread adds up at once. Who computes what is added takes as many in turn, or the order
// would be another.
template <class Kind>
inline constexpr int kRowsAdded = 8 / Kind::reads;

// The sums of V channels over the rows that this thread takes.
template <class Kind, class T, class C, int V, class Args>
RUSH_FN PackSums<C, V> sum_rows(const Args& args, Kind (&kinds)[V], i64 first,
                                const RowShare& rows) {
  PackSums<C, V> sums;
  if (first >= args.channels) return sums;
#pragma unroll
  for (int v = 0; v < V; ++v) kinds[v] = Kind(args, first + v);
  const T* x = typed<T>(args.x) + first;
  const T* g = Kind::reads > 1 ? typed<T>(args.g) + first : x;
  const i64 step = rows.lanes * args.channels;
  rows.each<kRowsAdded<Kind>, false>([&](i64 row, int count) {
    const i64 at = row * args.channels;
    add_some_rows<Kind, V, kRowsAdded<Kind>>(kinds, sums, x + at, g + at, step, count);
  });
  return sums;
}

// The elements of V channels in U rows, `step` apart: all are read before the first is written.
template <int U, class T, int V, class Kind, class Args>
RUSH_FN void map_packs(const Args& args, const Kind (&kinds)[V], i64 at, i64 step) {
  Pack<T, V> px[U], pg[U];
#pragma unroll
  for (int u = 0; u < U; ++u) {
    px[u] = pg[u] = load_pack<V>(typed<T>(args.x) + at + u * step);
    if constexpr (Kind::reads > 1) pg[u] = load_pack<V>(typed<T>(args.g) + at + u * step);
  }
#pragma unroll
  for (int u = 0; u < U; ++u) {
#pragma unroll
    for (int v = 0; v < V; ++v) px[u].v[v] = kinds[v](px[u].v[v], pg[u].v[v]);
    store_pack<V>(typed<T>(args.y) + at + u * step, px[u]);
  }
}
template <int Most, class T, int V, class Kind, class Args>
RUSH_FN void map_some_packs(const Args& args, const Kind (&kinds)[V], i64 at, i64 step, int count) {
  if (count >= Most) {
    map_packs<Most, T>(args, kinds, at, step);
    count -= Most, at += Most * step;
  }
  if constexpr (Most > 1)
    if (count > 0) map_some_packs<Most / 2, T>(args, kinds, at, step, count);
}
// The same for the rows that this thread takes, at most Most at once.
template <int Most, bool back, class T, int V, class Kind, class Args>
RUSH_FN void map_rows(const Args& args, const Kind (&kinds)[V], i64 first, const RowShare& rows) {
  rows.each<Most, back>([&](i64 row, int count) {
    map_some_packs<Most, T>(args, kinds, row * args.channels + first, rows.lanes * args.channels,
                            count);
  });
}

}  // namespace rush
