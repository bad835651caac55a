// pool.cu: pools over (batch, channels, up to three spatial dims), contiguous or channels-last.
//
// A thread takes one place: of the output in the forward passes, of the input in backward passes that
// gather, and of the output in one that scatters to the places that the forward pass of maxima noted,
// where windows are many or unknown. Channels-last, it takes V channels of it at once. I counts
// elements: 32 bits where they suffice.
#include "cuda/kernels/element.h"

namespace rush {

template <class I>
struct Point {
  I batch, channel;  // channel: the first of V
  i32 at[3];
};

template <class I, int V>
RUSH_FN Point<I> point_of(const PoolArgs<I>& args, const Divider<I>* sizes, I i) {
  Point<I> p;
  const auto take = [&i](const Divider<I>& size) {
    const I rest = size(i), mine = i - rest * size.d;
    i = rest;
    return mine;
  };
  if (args.channels_last) p.channel = take(args.packs) * V;
#pragma unroll
  for (int d = 2; d >= 0; --d) p.at[d] = i32(take(sizes[d]));
  if (!args.channels_last) p.channel = take(args.packs);
  p.batch = i;
  return p;
}

template <class I>
RUSH_FN I place_of(const PoolArgs<I>& args, const Divider<I>* sizes, const Point<I>& p, I spatial) {
  const I points = sizes[0].d * sizes[1].d * sizes[2].d;
  return args.channels_last ? (p.batch * points + spatial) * args.channels + p.channel
                            : (p.batch * args.channels + p.channel) * points + spatial;
}

// The inputs of output o along dim d: from, from + dilation, ... below `to`; `count` is what an
// average divides by.
struct Window {
  i32 from, to, count;
};
template <class I>
RUSH_FN Window window_of(const PoolArgs<I>& args, int d, i32 o) {
  const i32 n = i32(args.in[d].d), m = i32(args.out[d].d);
  if (args.adaptive) {
    const i32 from = i32(i64(o) * n / m), to = i32((i64(o + 1) * n + m - 1) / m);
    return {from, to, to - from};
  }
  i32 from = o * args.stride[d] - args.padding[d];
  i32 to = from + (args.kernel[d] - 1) * args.dilation[d] + 1;
  to = to < n + args.padding[d] ? to : n + args.padding[d];
  i32 count = to - from;
  if (from < 0) from += (-from + args.dilation[d] - 1) / args.dilation[d] * args.dilation[d];
  to = to < n ? to : n;
  if (!args.include_pad) count = to - from;
  return {from, to, count};
}

struct Windows {
  Window a, b, c;
};
template <class I>
RUSH_FN Windows windows_of(const PoolArgs<I>& args, const Point<I>& p) {
  return {window_of(args, 0, p.at[0]), window_of(args, 1, p.at[1]), window_of(args, 2, p.at[2])};
}

// How many places one instruction reads or writes.
template <int V>
inline constexpr int kPlaces = V > 1 ? 2 : 1;

template <class T, class I, int V>
__global__ void __launch_bounds__(kThreads) max_pool(PoolArgs<I> args) {
  after_earlier();
  const T* x = typed<T>(args.x);
  for (i64 i = thread_number(); i < args.n; i += thread_count()) {
    const Point<I> p = point_of<I, V>(args, args.out, I(i));
    const auto [a, b, c] = windows_of(args, p);
    Pack<T, V> best;
    Pack<i64, kPlaces<V>> places[V / kPlaces<V>];
    const auto where = [&](int k) -> i64& { return places[k / kPlaces<V>].v[k % kPlaces<V>]; };
#pragma unroll
    for (int k = 0; k < V; ++k) best.v[k] = is_float<T> ? T(0) : limits<T>::lowest, where(k) = -1;
    for (i32 u = a.from; u < a.to; u += args.dilation[0]) {
      for (i32 v = b.from; v < b.to; v += args.dilation[1]) {
        for (i32 w = c.from; w < c.to; w += args.dilation[2]) {
          const I spatial = (I(u) * args.in[1].d + I(v)) * args.in[2].d + I(w);
          const Pack<T, V> here = load_pack<V>(x + place_of(args, args.in, p, spatial));
#pragma unroll
          for (int k = 0; k < V; ++k) {
            // The first of equals; NaN wins.
            const T h = here.v[k];
            if (where(k) < 0 || h > best.v[k] || (h != h && best.v[k] == best.v[k])) {
              best.v[k] = h;
              where(k) = i64(spatial);
            }
          }
        }
      }
    }
    store_pack<V>(typed<T>(args.y) + i * V, best);
#pragma unroll
    for (int k = 0; k < V; k += kPlaces<V>)
      store_pack(args.indices + i * V + k, places[k / kPlaces<V>]);
  }
}

template <class T>
RUSH_FN void add_to(T* to, T x) {
  if constexpr (is_float<T>)
    atomicAdd(to, x);
  else
    atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(x));
}

// x: the outputs' gradient, y: the inputs', zero before.
template <class T, class I, int V>
__global__ void __launch_bounds__(kThreads) max_pool_scatter(PoolArgs<I> args) {
  after_earlier();
  const i64 points = i64(args.in[0].d) * args.in[1].d * args.in[2].d;
  for (i64 i = thread_number(); i < args.n; i += thread_count()) {
    const Point<I> p = point_of<I, V>(args, args.out, I(i));
    const Pack<T, V> g = load_pack<V>(typed<T>(args.x) + i * V);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const i64 where = args.indices[i * V + k];
      if (where >= 0 && where < points)
        add_to(typed<T>(args.y) + place_of(args, args.in, p, I(where)) + k, g.v[k]);
    }
  }
}

template <class T>
RUSH_FN T divide(T sum, i64 count, double divisor) {
  if constexpr (is_float<T>)
    return sum / T(divisor != 0 ? divisor : double(count));
  else
    return sum / T(divisor != 0 ? i64(divisor) : count);
}

template <class T, class I, int V>
__global__ void __launch_bounds__(kThreads) average_pool(PoolArgs<I> args) {
  after_earlier();
  const T* x = typed<T>(args.x);
  for (i64 i = thread_number(); i < args.n; i += thread_count()) {
    const Point<I> p = point_of<I, V>(args, args.out, I(i));
    const auto [a, b, c] = windows_of(args, p);
    Pack<T, V> sum;
#pragma unroll
    for (int k = 0; k < V; ++k) sum.v[k] = 0;
    for (i32 u = a.from; u < a.to; ++u) {
      for (i32 v = b.from; v < b.to; ++v) {
        for (i32 w = c.from; w < c.to; ++w) {
          const I spatial = (I(u) * args.in[1].d + I(v)) * args.in[2].d + I(w);
          const Pack<T, V> here = load_pack<V>(x + place_of(args, args.in, p, spatial));
#pragma unroll
          for (int k = 0; k < V; ++k) sum.v[k] += here.v[k];
        }
      }
    }
#pragma unroll
    for (int k = 0; k < V; ++k)
      sum.v[k] = divide(sum.v[k], i64(a.count) * b.count * c.count, args.divisor);
    store_pack<V>(typed<T>(args.y) + i * V, sum);
  }
}

// The outputs whose windows may hold input i: [first, last].
template <class I>
RUSH_FN void covering(const PoolArgs<I>& args, int d, i32 i, i32& first, i32& last) {
  const i32 n = i32(args.in[d].d), m = i32(args.out[d].d);
  if (args.adaptive) {
    first = i32(i64(i) * m / n);
    last = i32((i64(i + 1) * m + n - 1) / n - 1);
  } else {
    const i32 from = i + args.padding[d] - args.kernel[d] + 1;
    first = from > 0 ? (from + args.stride[d] - 1) / args.stride[d] : 0;
    last = (i + args.padding[d]) / args.stride[d];
  }
  last = last < m - 1 ? last : m - 1;
}

// x: the outputs' gradient, y: the inputs'. Each adds what the windows that it lies in took from it.
template <class T, class I, int V>
__global__ void __launch_bounds__(kThreads) max_pool_gather(PoolArgs<I> args) {
  after_earlier();
  for (i64 i = thread_number(); i < args.n; i += thread_count()) {
    const Point<I> p = point_of<I, V>(args, args.in, I(i));
    const i64 own = (i64(p.at[0]) * args.in[1].d + p.at[1]) * args.in[2].d + p.at[2];
    i32 first[3], last[3];
    for (int d = 0; d < 3; ++d) covering(args, d, p.at[d], first[d], last[d]);
    Pack<T, V> sum;
#pragma unroll
    for (int k = 0; k < V; ++k) sum.v[k] = 0;
    for (i32 u = first[0]; u <= last[0]; ++u) {
      for (i32 v = first[1]; v <= last[1]; ++v) {
        for (i32 w = first[2]; w <= last[2]; ++w) {
          const I spatial = (I(u) * args.out[1].d + I(v)) * args.out[2].d + I(w);
          const I at = place_of(args, args.out, p, spatial);
          const Pack<T, V> g = load_pack<V>(typed<T>(args.x) + at);
#pragma unroll
          for (int k = 0; k < V; k += kPlaces<V>) {
            const Pack<i64, kPlaces<V>> where = load_pack<kPlaces<V>>(args.indices + at + k);
#pragma unroll
            for (int j = 0; j < kPlaces<V>; ++j)
              if (where.v[j] == own) sum.v[k + j] += g.v[k + j];
          }
        }
      }
    }
    store_pack<V>(typed<T>(args.y) + i * V, sum);
  }
}

// x: the outputs' gradient, y: the inputs'.
template <class T, class I, int V>
__global__ void __launch_bounds__(kThreads) average_pool_backward(PoolArgs<I> args) {
  after_earlier();
  for (i64 i = thread_number(); i < args.n; i += thread_count()) {
    const Point<I> p = point_of<I, V>(args, args.in, I(i));
    i32 first[3], last[3];
    for (int d = 0; d < 3; ++d) covering(args, d, p.at[d], first[d], last[d]);
    Pack<T, V> sum;
#pragma unroll
    for (int k = 0; k < V; ++k) sum.v[k] = 0;
    for (i32 u = first[0]; u <= last[0]; ++u) {
      const Window a = window_of(args, 0, u);
      for (i32 v = first[1]; v <= last[1]; ++v) {
        const Window b = window_of(args, 1, v);
        for (i32 w = first[2]; w <= last[2]; ++w) {
          const Window c = window_of(args, 2, w);
          const bool inside = p.at[0] >= a.from && p.at[0] < a.to && p.at[1] >= b.from &&
                              p.at[1] < b.to && p.at[2] >= c.from && p.at[2] < c.to;
          if (!inside) continue;
          const I spatial = (I(u) * args.out[1].d + I(v)) * args.out[2].d + I(w);
          const Pack<T, V> g =
              load_pack<V>(typed<T>(args.x) + place_of(args, args.out, p, spatial));
#pragma unroll
          for (int k = 0; k < V; ++k)
            sum.v[k] += divide(g.v[k], i64(a.count) * b.count * c.count, args.divisor);
        }
      }
    }
    store_pack<V>(typed<T>(args.y) + i * V, sum);
  }
}

}  // namespace rush
