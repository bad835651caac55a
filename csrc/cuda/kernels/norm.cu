// norm.cu: normalisation over channels (batch norm).
//
// - An image is (batch, channels, inner) with inner = 1 for channels-last. The sums of the backward
//   pass are formed in segments, one a block, and joined in order: no atomics, so the same numbers
//   come out every time. (The statistics of the forward pass are reduce.cu's.)
// - T is the type of everything; half types are widened by the caller.
#include "cuda/kernels/team.h"
#include "functors/math.h"

namespace rush {

// ---- sums ----

// Writes a block's sums of one channel each: [segment][2][channels]. Block: 32 channels by 8 lanes.
inline constexpr int kColumns = 32, kLanes = kThreads / kColumns;

template <class T>
RUSH_FN void write_pair(void* partial, i64 channels, i64 channel, bool works, T plain, T along) {
  __shared__ T all[2][kLanes][kColumns];
  const int col = threadIdx.x % kColumns, lane = threadIdx.x / kColumns;
  all[0][lane][col] = plain;
  all[1][lane][col] = along;
  __syncthreads();
  if (lane != 0 || !works) return;
  for (int k = 1; k < kLanes; ++k) plain += all[0][k][col], along += all[1][k][col];
  T* out = typed<T>(partial) + i64(blockIdx.y) * 2 * channels + channel;
  out[0] = plain;
  out[channels] = along;
}

// Joins the segments in order: gb from the plain sums, gw from the others.
template <class T>
__global__ void __launch_bounds__(kThreads) join_pairs(JoinPairsArgs args) {
  for (i64 c = thread_number(); c < args.channels; c += thread_count()) {
    T plain = 0, along = 0;
    for (i64 s = 0; s < args.segments; ++s) {
      const T* part = typed<T>(args.partial) + s * 2 * args.channels + c;
      plain += part[0];
      along += part[args.channels];
    }
    typed<T>(args.gb)[c] = plain;
    typed<T>(args.gw)[c] = along;
  }
}

// ---- channels ----

// Which channel element i of (batch, channels, inner) belongs to.
RUSH_FN u32 channel_of(const ChannelNormArgs& args, u32 i) {
  const u32 k = args.inner(i);
  return k - args.channels(k) * args.channels.d;
}

template <class T>
__global__ void __launch_bounds__(kThreads) channel_norm(ChannelNormArgs args) {
  const T *x = typed<T>(args.x), *weight = typed<T>(args.weight), *bias = typed<T>(args.bias);
  for (i64 i = thread_number(); i < args.n; i += thread_count()) {
    const u32 c = channel_of(args, u32(i));
    const T rstd = T(1) / math::sqrt(typed<T>(args.var)[c] + T(args.eps));
    T y = (x[i] - typed<T>(args.mean)[c]) * rstd;
    if (weight) y *= weight[c];
    if (bias) y += bias[c];
    typed<T>(args.y)[i] = y;
  }
}

// gx from the joined sums (gw, gb).
template <class T>
__global__ void __launch_bounds__(kThreads) channel_norm_backward(ChannelNormArgs args) {
  const T *x = typed<T>(args.x), *g = typed<T>(args.g), *weight = typed<T>(args.weight);
  const T count = T(args.n / args.channels.d);
  for (i64 i = thread_number(); i < args.n; i += thread_count()) {
    const u32 c = channel_of(args, u32(i));
    const T rstd = T(1) / math::sqrt(typed<T>(args.var)[c] + T(args.eps));
    const T normal = (x[i] - typed<T>(args.mean)[c]) * rstd;
    const T rest = g[i] - typed<T>(args.gb)[c] / count - normal * (typed<T>(args.gw)[c] / count);
    typed<T>(args.y)[i] = (weight ? weight[c] * rstd : rstd) * rest;
  }
}

// Partial sums of g, and of g times the normalised x, for each channel: [segment][2][channels].
// Channels-last (inner = 1): 32 channels by 8 lanes a block.
template <class T>
__global__ void __launch_bounds__(kThreads) channel_sums_last(ChannelNormArgs args) {
  const i64 channels = args.channels.d, rows = args.n / channels;
  const i64 c = i64(blockIdx.x) * kColumns + threadIdx.x % kColumns;
  const bool works = c < channels;
  const i64 begin = i64(blockIdx.y) * args.segment;
  const i64 end = begin + args.segment < rows ? begin + args.segment : rows;
  T plain = 0, along = 0;
  if (works) {
    const T mean = typed<T>(args.mean)[c];
    const T rstd = T(1) / math::sqrt(typed<T>(args.var)[c] + T(args.eps));
    for (i64 r = begin + threadIdx.x / kColumns; r < end; r += kLanes) {
      const T g = typed<T>(args.g)[r * channels + c];
      plain += g;
      along += g * (typed<T>(args.x)[r * channels + c] - mean) * rstd;
    }
  }
  write_pair(args.partial, channels, c, works, plain, along);
}

// Contiguous: a block takes one channel (x) and some of its planes (y).
template <class T>
__global__ void __launch_bounds__(kThreads) channel_sums(ChannelNormArgs args) {
  const i64 channels = args.channels.d, inner = args.inner.d, batch = args.n / channels / inner;
  const i64 c = blockIdx.x;
  const i64 begin = i64(blockIdx.y) * args.segment;
  const i64 end = begin + args.segment < batch ? begin + args.segment : batch;
  const T mean = typed<T>(args.mean)[c];
  const T rstd = T(1) / math::sqrt(typed<T>(args.var)[c] + T(args.eps));
  T plain = 0, along = 0;
  for (i64 b = begin; b < end; ++b) {
    const i64 at = (b * channels + c) * inner;
    for (i64 i = threadIdx.x; i < inner; i += kThreads) {
      const T g = typed<T>(args.g)[at + i];
      plain += g;
      along += g * (typed<T>(args.x)[at + i] - mean) * rstd;
    }
  }
  plain = join_team<kThreads>(plain, JoinSum{});
  along = join_team<kThreads>(along, JoinSum{});
  if (threadIdx.x != 0) return;
  T* out = typed<T>(args.partial) + i64(blockIdx.y) * 2 * channels + c;
  out[0] = plain;
  out[channels] = along;
}

}  // namespace rush
