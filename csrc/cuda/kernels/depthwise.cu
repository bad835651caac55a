// depthwise.cu: two-dimensional convolutions of each channel by itself, channels-last.
//
// A thread keeps to V channels and holds their weights (or the sums for them) in registers, while
// its block goes over a stretch of pixels; neighbours' reads overlap and come from the cache. With
// filters of 3 by 3, whose strides are S, it takes several pixels of a line at once (a run) and reads what they
// share once. Each sum adds its taps in their order, in both ways. T is the type of the elements, C
// what is added up in, KH and KW the filter's size.
#include "cuda/kernels/element.h"

namespace rush {

// The lane's place in its block, and the pixels [begin, end) that the block takes.
struct Stretch {
  i64 channel;  // the first of V
  int lane, lanes;
  u32 begin, end;
};
template <int V>
RUSH_FN Stretch stretch_of(const DepthwiseArgs& a, u32 pixels) {
  Stretch s;
  s.channel = (i64(blockIdx.x) * a.columns + threadIdx.x % a.columns) * V;
  s.lane = threadIdx.x / a.columns;
  s.lanes = kThreads / a.columns;
  s.begin = blockIdx.y * a.segment;
  s.end = pixels - s.begin < a.segment ? pixels : s.begin + a.segment;
  return s;
}

struct Pixel {
  u32 batch;
  i32 h, w;
};
RUSH_FN Pixel pixel_of(const Divider<u32>& height, const Divider<u32>& width, u32 i) {
  const u32 row = width(i), batch = height(row);
  return {batch, i32(row - batch * height.d), i32(i - row * width.d)};
}

template <class T, class C, int Taps, int V>
RUSH_FN void load_weights(const DepthwiseArgs& a, i64 channel, C (&w)[Taps][V]) {
  Pack<T, V> packs[Taps];  // they are one piece of memory
#pragma unroll
  for (int i = 0; i < Taps; ++i) packs[i] = load_pack<V>(typed<T>(a.w) + channel * Taps + i * V);
#pragma unroll
  for (int v = 0; v < V; ++v)
#pragma unroll
    for (int k = 0; k < Taps; ++k)
      w[k][v] = convert<C>(packs[(v * Taps + k) / V].v[(v * Taps + k) % V]);
}

// Calls f(tap, elements) for the inputs that output pixel i sees; x is the input from its channel on.
template <int KH, int KW, int V, class T, class F>
RUSH_FN void each_input(const DepthwiseArgs& args, u32 i, const T* x, F f) {
  const Pixel p = pixel_of(args.out_h, args.out_w, i);
  const i32 top = p.h * args.stride[0] - args.padding[0],
            left = p.w * args.stride[1] - args.padding[1];
#pragma unroll
  for (int kh = 0; kh < KH; ++kh) {
    const i32 h = top + kh * args.dilation[0];
    if (u32(h) >= args.in_h.d) continue;
    const i64 row = (i64(p.batch) * args.in_h.d + h) * args.in_w.d;
#pragma unroll
    for (int kw = 0; kw < KW; ++kw) {
      const i32 w = left + kw * args.dilation[1];
      if (u32(w) >= args.in_w.d) continue;
      f(kh * KW + kw, load_pack<V>(x + (row + w) * args.channels));
    }
  }
}

template <int V, class T, class C>
RUSH_FN void store_sums(T* to, const C (&sum)[V]) {
  Pack<T, V> out;
#pragma unroll
  for (int v = 0; v < V; ++v) out.v[v] = convert<T>(sum[v]);
  store_pack<V>(to, out);
}

template <class T, class C, int KH, int KW, int V>
__global__ void __launch_bounds__(kThreads) depthwise_forward(DepthwiseArgs args) {
  after_earlier();
  const Stretch s = stretch_of<V>(args, args.pixels);
  if (s.channel >= args.channels) return;
  C weights[KH * KW][V], start[V];
  load_weights<T>(args, s.channel, weights);
#pragma unroll
  for (int v = 0; v < V; ++v)
    start[v] = args.bias ? convert<C>(typed<T>(args.bias)[s.channel + v]) : C(0);
  const T* x = typed<T>(args.x) + s.channel;
  for (u32 i = s.begin + s.lane; i < s.end; i += s.lanes) {
    C sum[V];
#pragma unroll
    for (int v = 0; v < V; ++v) sum[v] = start[v];
    each_input<KH, KW, V>(args, i, x, [&](int tap, const Pack<T, V>& px) {
#pragma unroll
      for (int v = 0; v < V; ++v) sum[v] += convert<C>(px.v[v]) * weights[tap][v];
    });
    store_sums(typed<T>(args.y_out) + i64(i) * args.channels + s.channel, sum);
  }
}

// y holds the gradient of the outputs, x gets that of the inputs; pixels are the inputs'.
template <class T, class C, int KH, int KW, int V>
__global__ void __launch_bounds__(kThreads) depthwise_input_grad(DepthwiseArgs args) {
  after_earlier();
  const Stretch s = stretch_of<V>(args, args.pixels);
  if (s.channel >= args.channels) return;
  C weights[KH * KW][V];
  load_weights<T>(args, s.channel, weights);
  const T* g = typed<T>(args.y) + s.channel;
  for (u32 i = s.begin + s.lane; i < s.end; i += s.lanes) {
    const Pixel p = pixel_of(args.in_h, args.in_w, i);
    C sum[V] = {};
#pragma unroll
    for (int kh = 0; kh < KH; ++kh) {
      const i32 from_h = p.h + args.padding[0] - kh * args.dilation[0];
      if (from_h < 0) continue;
      const u32 h = args.stride_h(u32(from_h));
      if (h * args.stride_h.d != u32(from_h) || h >= args.out_h.d) continue;
      const i64 row = (i64(p.batch) * args.out_h.d + h) * args.out_w.d;
#pragma unroll
      for (int kw = 0; kw < KW; ++kw) {
        const i32 from_w = p.w + args.padding[1] - kw * args.dilation[1];
        if (from_w < 0) continue;
        const u32 w = args.stride_w(u32(from_w));
        if (w * args.stride_w.d != u32(from_w) || w >= args.out_w.d) continue;
        const Pack<T, V> pg = load_pack<V>(g + (row + w) * args.channels);
#pragma unroll
        for (int v = 0; v < V; ++v) sum[v] += convert<C>(pg.v[v]) * weights[kh * KW + kw][v];
      }
    }
    store_sums(typed<T>(args.x_out) + i64(i) * args.channels + s.channel, sum);
  }
}

// ---- runs ----

// A run of pixels in a line of the result.
struct Run {
  u32 batch;
  i32 h, w;
  RUSH_FN Run(const DepthwiseArgs& a, const Divider<u32>& height, u32 i) {
    const u32 line = a.runs(i);
    batch = height(line);
    h = i32(line - batch * height.d);
    w = i32(i - line * a.runs.d) * kDepthwiseRun;
  }
};

template <class C, int V>
struct RunSums {
  C v[kDepthwiseRun][V];
  RUSH_FN void start(const C (&with)[V]) {
#pragma unroll
    for (int p = 0; p < kDepthwiseRun; ++p)
#pragma unroll
      for (int k = 0; k < V; ++k) v[p][k] = with[k];
  }
  template <class T>
  RUSH_FN void add(int pixel, const Pack<T, V>& x, const C (&weights)[V]) {
#pragma unroll
    for (int k = 0; k < V; ++k) v[pixel][k] += convert<C>(x.v[k]) * weights[k];
  }
  // To those pixels of the line that there are.
  template <class T>
  RUSH_FN void store(T* to, i64 channels, i32 left) const {
#pragma unroll
    for (int p = 0; p < kDepthwiseRun; ++p)
      if (p < left) store_sums(to + p * channels, v[p]);
  }
};

// Adds up what lies under the filter at (top, left) and, S further each, for the rest of the run.
// Turned: the last tap is first.
template <int K, int S, bool turned, int V, class T, class C>
RUSH_FN void add_windows(RunSums<C, V>& sums, const T* image, i32 height, i32 width, i64 channels,
                         i32 top, i32 left, const C (&weights)[K * K][V]) {
  constexpr int kColumns = (kDepthwiseRun - 1) * S + K;
#pragma unroll
  for (int kh = 0; kh < K; ++kh) {
    const i32 h = top + (turned ? K - 1 - kh : kh);
    const bool inside = u32(h) < u32(height);
    const T* line = image + (i64(h) * width + left) * channels;
    Pack<T, V> x[kColumns];
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
      if (inside && u32(left + c) < u32(width)) x[c] = load_pack<V>(line + c * channels);
#pragma unroll
    for (int kw = 0; kw < K; ++kw)
#pragma unroll
      for (int p = 0; p < kDepthwiseRun; ++p) {
        const int c = p * S + (turned ? K - 1 - kw : kw);
        if (inside && u32(left + c) < u32(width)) sums.add(p, x[c], weights[kh * K + kw]);
      }
  }
}

template <class T, class C, int S, int V>
__global__ void __launch_bounds__(kThreads, 2) depthwise_forward_runs(DepthwiseArgs args) {
  after_earlier();
  const Stretch s = stretch_of<V>(args, args.pixels);
  if (s.channel >= args.channels) return;
  C weights[9][V], start[V];
  load_weights<T>(args, s.channel, weights);
#pragma unroll
  for (int v = 0; v < V; ++v)
    start[v] = args.bias ? convert<C>(typed<T>(args.bias)[s.channel + v]) : C(0);
  const i32 height = i32(args.in_h.d), width = i32(args.in_w.d), columns = i32(args.out_w.d);
  for (u32 i = s.begin + s.lane; i < s.end; i += s.lanes) {
    const Run run(args, args.out_h, i);
    RunSums<C, V> sums;
    sums.start(start);
    const T* image = typed<T>(args.x) + i64(run.batch) * height * width * args.channels + s.channel;
    add_windows<3, S, false, V>(sums, image, height, width, args.channels,
                                run.h * S - args.padding[0], run.w * S - args.padding[1], weights);
    const i64 line = i64(run.batch) * args.out_h.d + run.h;
    sums.store(typed<T>(args.y_out) + (line * columns + run.w) * args.channels + s.channel,
               args.channels, columns - run.w);
  }
}

// What outputs give back to a run of inputs where S is 2 and the padding 1: an even pixel lies under the
// middle tap of one of them, an odd one under the outer taps of two.
template <int V, class T, class C>
RUSH_FN void add_halves(RunSums<C, V>& sums, const T* image, i32 height, i32 width, i64 channels,
                        const Run& run, const C (&weights)[9][V]) {
  constexpr int kColumns = kDepthwiseRun / 2 + 1;
  const i32 left = run.w / 2;
#pragma unroll
  for (int kh = 0; kh < 3; ++kh) {
    const i32 twice = run.h + 1 - kh, h = twice / 2;
    const bool inside = twice >= 0 && twice % 2 == 0 && h < height;
    const T* line = image + (i64(h) * width + left) * channels;
    Pack<T, V> g[kColumns];
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
      if (inside && left + c < width) g[c] = load_pack<V>(line + c * channels);
#pragma unroll
    for (int p = 0; p < kDepthwiseRun; ++p) {
#pragma unroll
      for (int kw = 0; kw < 3; ++kw) {
        if ((p + 1 - kw) % 2) continue;
        const int c = (p + 1 - kw) / 2;
        if (inside && left + c < width) sums.add(p, g[c], weights[kh * 3 + kw]);
      }
    }
  }
}

template <class T, class C, int S, int V>
__global__ void __launch_bounds__(kThreads, 2) depthwise_input_grad_runs(DepthwiseArgs args) {
  after_earlier();
  const Stretch s = stretch_of<V>(args, args.pixels);
  if (s.channel >= args.channels) return;
  C weights[9][V], start[V] = {};
  load_weights<T>(args, s.channel, weights);
  const i32 height = i32(args.out_h.d), width = i32(args.out_w.d), columns = i32(args.in_w.d);
  for (u32 i = s.begin + s.lane; i < s.end; i += s.lanes) {
    const Run run(args, args.in_h, i);
    RunSums<C, V> sums;
    sums.start(start);
    const T* image = typed<T>(args.y) + i64(run.batch) * height * width * args.channels + s.channel;
    if constexpr (S == 1)
      add_windows<3, 1, true, V>(sums, image, height, width, args.channels,
                                 run.h + args.padding[0] - 2, run.w + args.padding[1] - 2, weights);
    else
      add_halves<V>(sums, image, height, width, args.channels, run, weights);
    const i64 line = i64(run.batch) * args.in_h.d + run.h;
    sums.store(typed<T>(args.x_out) + (line * columns + run.w) * args.channels + s.channel,
               args.channels, columns - run.w);
  }
}

// ---- weights ----

// The sum over the threads with one column, in lane 0.
template <class C>
RUSH_FN C join_column(C mine, int lane, int lanes) {
  __shared__ C all[kThreads];
  __syncthreads();
  all[threadIdx.x] = mine;
  const int columns = kThreads / lanes;
  for (int half = lanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane < half) all[threadIdx.x] = mine += all[threadIdx.x + half * columns];
  }
  return mine;
}

// A block's sums over its stretch: partial[stretch][tap][channel].
template <class T, class C, int KH, int KW, int V>
__global__ void __launch_bounds__(kThreads) depthwise_weight_grad(DepthwiseArgs args) {
  after_earlier();
  const Stretch s = stretch_of<V>(args, args.pixels);
  const bool works = s.channel < args.channels;
  C sums[KH * KW][V] = {};
  if (works) {
    const T *x = typed<T>(args.x) + s.channel, *g = typed<T>(args.y) + s.channel;
    for (u32 i = s.begin + s.lane; i < s.end; i += s.lanes) {
      const Pack<T, V> pg = load_pack<V>(g + i64(i) * args.channels);
      each_input<KH, KW, V>(args, i, x, [&](int tap, const Pack<T, V>& px) {
#pragma unroll
        for (int v = 0; v < V; ++v) sums[tap][v] += convert<C>(px.v[v]) * convert<C>(pg.v[v]);
      });
    }
  }
  C* partial = typed<C>(args.partial) + i64(blockIdx.y) * (KH * KW) * args.channels + s.channel;
#pragma unroll
  for (int k = 0; k < KH * KW; ++k) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const C sum = join_column(sums[k][v], s.lane, s.lanes);
      if (s.lane == 0 && works) partial[i64(k) * args.channels + v] = sum;
    }
  }
}

// Joins the stretches in order. A warp takes 32 channels of one tap; w is (channels, 1, KH, KW).
template <class T, class C>
__global__ void __launch_bounds__(kThreads) depthwise_join(DepthwiseArgs args) {
  after_earlier();
  const i64 all = args.channels * args.taps;
  for (i64 i = thread_number(); i < all; i += thread_count()) {
    C sum = 0;
    for (i64 s = 0; s < args.stretches; ++s) sum += typed<C>(args.partial)[s * all + i];
    const i64 tap = i / args.channels, channel = i - tap * args.channels;
    typed<T>(args.w_out)[channel * args.taps + tap] = convert<T>(sum);
  }
}

}  // namespace rush
