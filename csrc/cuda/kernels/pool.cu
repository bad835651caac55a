// pool.cu: pools over (batch, channels, up to three spatial dims), contiguous or channels-last.
//
// A thread takes one element: of the output in the forward passes, of the input in the backward
// pass of averages, which gathers, and of the output in that of maxima, which scatters to the
// places that the forward pass noted.
#include "cuda/kernels/element.h"

namespace rush {

struct Point {
  i64 batch, channel, at[3];
};

RUSH_FN Point point_of(const PoolArgs& args, const i32* sizes, i64 i) {
  Point p;
  if (args.channels_last) {
    p.channel = i % args.channels;
    i /= args.channels;
  }
#pragma unroll
  for (int d = 2; d >= 0; --d) {
    p.at[d] = i % sizes[d];
    i /= sizes[d];
  }
  if (!args.channels_last) {
    p.channel = i % args.channels;
    i /= args.channels;
  }
  p.batch = i;
  return p;
}

RUSH_FN i64 place_of(const PoolArgs& args, const i32* sizes, const Point& p, i64 spatial) {
  const i64 points = i64(sizes[0]) * sizes[1] * sizes[2];
  return args.channels_last ? (p.batch * points + spatial) * args.channels + p.channel
                            : (p.batch * args.channels + p.channel) * points + spatial;
}

// The inputs of output o along dim d: from, from + dilation, ... below `to`; `count` is what an
// average divides by.
struct Window {
  i64 from, to, count;
};
RUSH_FN Window window_of(const PoolArgs& args, int d, i64 o) {
  const i64 n = args.in[d], m = args.out[d];
  if (args.adaptive) {
    const i64 from = o * n / m, to = ((o + 1) * n + m - 1) / m;
    return {from, to, to - from};
  }
  i64 from = o * args.stride[d] - args.padding[d];
  i64 to = from + i64(args.kernel[d] - 1) * args.dilation[d] + 1;
  to = to < n + args.padding[d] ? to : n + args.padding[d];
  i64 count = to - from;
  if (from < 0) from += (-from + args.dilation[d] - 1) / args.dilation[d] * args.dilation[d];
  to = to < n ? to : n;
  if (!args.include_pad) count = to - from;
  return {from, to, count};
}

template <class T>
__global__ void __launch_bounds__(kThreads) max_pool(PoolArgs args) {
  const T* x = typed<T>(args.x);
  for (i64 i = thread_number(); i < args.n; i += thread_count()) {
    const Point p = point_of(args, args.out, i);
    const Window a = window_of(args, 0, p.at[0]), b = window_of(args, 1, p.at[1]),
                 c = window_of(args, 2, p.at[2]);
    T best = is_float<T> ? T(0) : limits<T>::lowest;
    i64 where = -1;
    for (i64 u = a.from; u < a.to; u += args.dilation[0]) {
      for (i64 v = b.from; v < b.to; v += args.dilation[1]) {
        for (i64 w = c.from; w < c.to; w += args.dilation[2]) {
          const i64 spatial = (u * args.in[1] + v) * args.in[2] + w;
          const T here = x[place_of(args, args.in, p, spatial)];
          // The first of equals; NaN wins.
          if (where < 0 || here > best || (here != here && best == best)) {
            best = here;
            where = spatial;
          }
        }
      }
    }
    typed<T>(args.y)[i] = best;
    args.indices[i] = where;
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
template <class T>
__global__ void __launch_bounds__(kThreads) max_pool_backward(PoolArgs args) {
  const i64 points = i64(args.in[0]) * args.in[1] * args.in[2];
  for (i64 i = thread_number(); i < args.n; i += thread_count()) {
    const Point p = point_of(args, args.out, i);
    const i64 where = args.indices[i];
    if (where >= 0 && where < points)
      add_to(typed<T>(args.y) + place_of(args, args.in, p, where), typed<T>(args.x)[i]);
  }
}

template <class T>
RUSH_FN T divide(T sum, i64 count, double divisor) {
  if constexpr (is_float<T>)
    return sum / T(divisor != 0 ? divisor : double(count));
  else
    return sum / T(divisor != 0 ? i64(divisor) : count);
}

template <class T>
__global__ void __launch_bounds__(kThreads) average_pool(PoolArgs args) {
  const T* x = typed<T>(args.x);
  for (i64 i = thread_number(); i < args.n; i += thread_count()) {
    const Point p = point_of(args, args.out, i);
    const Window a = window_of(args, 0, p.at[0]), b = window_of(args, 1, p.at[1]),
                 c = window_of(args, 2, p.at[2]);
    T sum = 0;
    for (i64 u = a.from; u < a.to; ++u)
      for (i64 v = b.from; v < b.to; ++v)
        for (i64 w = c.from; w < c.to; ++w)
          sum += x[place_of(args, args.in, p, (u * args.in[1] + v) * args.in[2] + w)];
    typed<T>(args.y)[i] = divide(sum, a.count * b.count * c.count, args.divisor);
  }
}

// The outputs whose windows may hold input i: [first, last].
RUSH_FN void covering(const PoolArgs& args, int d, i64 i, i64& first, i64& last) {
  const i64 n = args.in[d], m = args.out[d];
  if (args.adaptive) {
    first = i * m / n;
    last = ((i + 1) * m + n - 1) / n - 1;
  } else {
    const i64 from = i + args.padding[d] - args.kernel[d] + 1;
    first = from > 0 ? (from + args.stride[d] - 1) / args.stride[d] : 0;
    last = (i + args.padding[d]) / args.stride[d];
  }
  last = last < m - 1 ? last : m - 1;
}

// x: the outputs' gradient, y: the inputs'.
template <class T>
__global__ void __launch_bounds__(kThreads) average_pool_backward(PoolArgs args) {
  for (i64 i = thread_number(); i < args.n; i += thread_count()) {
    const Point p = point_of(args, args.in, i);
    i64 first[3], last[3];
    for (int d = 0; d < 3; ++d) covering(args, d, p.at[d], first[d], last[d]);
    T sum = 0;
    for (i64 u = first[0]; u <= last[0]; ++u) {
      const Window a = window_of(args, 0, u);
      for (i64 v = first[1]; v <= last[1]; ++v) {
        const Window b = window_of(args, 1, v);
        for (i64 w = first[2]; w <= last[2]; ++w) {
          const Window c = window_of(args, 2, w);
          const bool inside = p.at[0] >= a.from && p.at[0] < a.to && p.at[1] >= b.from &&
                              p.at[1] < b.to && p.at[2] >= c.from && p.at[2] < c.to;
          if (!inside) continue;
          const i64 spatial = (u * args.out[1] + v) * args.out[2] + w;
          sum += divide(typed<T>(args.x)[place_of(args, args.out, p, spatial)],
                        a.count * b.count * c.count, args.divisor);
        }
      }
    }
    typed<T>(args.y)[i] = sum;
  }
}

}  // namespace rush
