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

// The rows that a thread takes: from `row` on, `apart` from each other, which is negative if it goes
// from the last to the first.
struct RowWalk {
  i64 row, apart, count;

  // Those of [begin, end) that are this lane's, of so many.
  static RUSH_FN RowWalk over(i64 begin, i64 end, i64 lane, i64 lanes) {
    return {begin + lane, lanes,
            lane < end - begin ? quotient(end - begin - lane - 1, lanes) + 1 : 0};
  }
  // The same from the last to the first: who went over them before has left the last ones in the
  // GPU's cache.
  RUSH_FN RowWalk back() const { return {row + (count - 1) * apart, -apart, count}; }
  RUSH_FN void advance(int rows) { row += rows * apart, count -= rows; }
};

// U rows: all are read before the first is added.
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

// The sums of V channels over the rows that this thread takes.
template <class Kind, class T, class C, int V, class Args>
RUSH_FN PackSums<C, V> sum_rows(const Args& args, Kind (&kinds)[V], i64 first, RowWalk walk) {
  PackSums<C, V> sums;
  if (first >= args.channels) return sums;
#pragma unroll
  for (int v = 0; v < V; ++v) kinds[v] = Kind(args, first + v);
  const T* x = typed<T>(args.x) + first;
  const T* g = Kind::reads > 1 ? typed<T>(args.g) + first : x;
  constexpr int kAtOnce = 8 / Kind::reads;  // loads under way
  const i64 step = walk.apart * args.channels;
  for (; walk.count >= kAtOnce; walk.advance(kAtOnce)) {
    const i64 at = walk.row * args.channels;
    add_rows<Kind, V, kAtOnce>(kinds, sums, x + at, g + at, step);
  }
  for (; walk.count > 0; walk.advance(1)) {
    const i64 at = walk.row * args.channels;
    add_rows<Kind, V, 1>(kinds, sums, x + at, g + at, step);
  }
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
// The same for all rows of a walk, U at a time.
template <int U, class T, int V, class Kind, class Args>
RUSH_FN void map_rows(const Args& args, const Kind (&kinds)[V], i64 first, RowWalk walk) {
  const i64 step = walk.apart * args.channels;
  for (; walk.count >= U; walk.advance(U))
    map_packs<U, T>(args, kinds, walk.row * args.channels + first, step);
  for (; walk.count > 0; walk.advance(1))
    map_packs<1, T>(args, kinds, walk.row * args.channels + first, step);
}

}  // namespace rush
