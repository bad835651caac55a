// norm.cu: layer and RMS norm and softmax over rows.
//
// A team of threads (a warp, or the block) takes a row. It reads the row two or three times, which
// the caches serve, and joins its partial results by a tree in shared memory. T is the type of
// everything; half types are widened by the caller.
#include "cuda/kernels/element.h"
#include "functors/binary.h"

namespace rush {

// ---- teams ----

// The sum (or the maximum) over a team's threads, known to all of them. All threads of the block
// call it.
template <int Team, class T, class Join>
RUSH_FN T join_team(T mine, Join join) {
  __shared__ T all[kThreads];
  const int lane = threadIdx.x % Team;
  __syncthreads();
  all[threadIdx.x] = mine;
  for (int half = Team / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane < half) all[threadIdx.x] = join(all[threadIdx.x], all[threadIdx.x + half]);
  }
  __syncthreads();
  return all[threadIdx.x - lane];
}
struct JoinSum {
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    return a + b;
  }
};

// ---- rows ----

template <class T, int Team, bool centred>
__global__ void __launch_bounds__(kThreads) row_norm(RowNormArgs args) {
  constexpr int teams = kThreads / Team;
  const int lane = threadIdx.x % Team;
  const i64 row = i64(blockIdx.x) * teams + threadIdx.x / Team;
  const bool works = row < args.rows;
  const T* x = typed<T>(args.x) + (works ? row : 0) * args.width;
  const T n = T(args.width);
  T mean = 0;
  if constexpr (centred) {
    T sum = 0;
    if (works)
      for (i64 i = lane; i < args.width; i += Team) sum += x[i];
    mean = join_team<Team>(sum, JoinSum{}) / n;
  }
  T squares = 0;
  if (works)
    for (i64 i = lane; i < args.width; i += Team) squares += (x[i] - mean) * (x[i] - mean);
  const T rstd = T(1) / math::sqrt(join_team<Team>(squares, JoinSum{}) / n + T(args.eps));
  if (!works) return;
  T* y = typed<T>(args.y) + row * args.width;
  const T *weight = typed<T>(args.weight), *bias = typed<T>(args.bias);
  for (i64 i = lane; i < args.width; i += Team) {
    T v = (x[i] - mean) * rstd;
    if (weight) v *= weight[i];
    if (bias) v += bias[i];
    y[i] = v;
  }
  if (lane == 0) {
    if (centred) typed<T>(args.mean)[row] = mean;
    typed<T>(args.rstd)[row] = rstd;
  }
}

template <class T, int Team, bool centred>
__global__ void __launch_bounds__(kThreads) row_norm_backward(RowNormArgs args) {
  constexpr int teams = kThreads / Team;
  const int lane = threadIdx.x % Team;
  const i64 row = i64(blockIdx.x) * teams + threadIdx.x / Team;
  const bool works = row < args.rows;
  const i64 at = (works ? row : 0) * args.width;
  const T *x = typed<T>(args.x) + at, *g = typed<T>(args.g) + at, *weight = typed<T>(args.weight);
  const T mean = centred ? typed<T>(args.mean)[works ? row : 0] : T(0);
  const T rstd = typed<T>(args.rstd)[works ? row : 0];
  T plain = 0, along = 0;  // sums of w g, and of w g times the normalised x
  if (works) {
    for (i64 i = lane; i < args.width; i += Team) {
      const T wg = weight ? weight[i] * g[i] : g[i];
      plain += wg;
      along += wg * (x[i] - mean) * rstd;
    }
  }
  const T n = T(args.width);
  plain = centred ? join_team<Team>(plain, JoinSum{}) / n : T(0);
  along = join_team<Team>(along, JoinSum{}) / n;
  if (!works) return;
  T* gx = typed<T>(args.y) + at;
  for (i64 i = lane; i < args.width; i += Team) {
    const T wg = weight ? weight[i] * g[i] : g[i];
    gx[i] = rstd * (wg - plain - (x[i] - mean) * rstd * along);
  }
}

// Partial sums of g, and of g times the normalised x, down the columns: [segment][2][width].
// Block: 32 columns by 8 lanes.
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

template <class T, bool centred>
__global__ void __launch_bounds__(kThreads) row_norm_columns(RowNormArgs args) {
  const i64 col = i64(blockIdx.x) * kColumns + threadIdx.x % kColumns;
  const bool works = col < args.width;
  const i64 begin = i64(blockIdx.y) * args.segment;
  const i64 end = begin + args.segment < args.rows ? begin + args.segment : args.rows;
  T plain = 0, along = 0;
  if (works) {
    for (i64 r = begin + threadIdx.x / kColumns; r < end; r += kLanes) {
      const T g = typed<T>(args.g)[r * args.width + col];
      const T mean = centred ? typed<T>(args.mean)[r] : T(0);
      plain += g;
      along += g * (typed<T>(args.x)[r * args.width + col] - mean) * typed<T>(args.rstd)[r];
    }
  }
  write_pair(args.partial, args.width, col, works, plain, along);
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

// ---- softmax over rows ----

// In and Out are types of memory, C is what is computed in.
template <class C, class In, class Out, int Team, bool log>
__global__ void __launch_bounds__(kThreads) softmax_rows(SoftmaxArgs args) {
  constexpr int teams = kThreads / Team;
  const int lane = threadIdx.x % Team;
  const i64 row = i64(blockIdx.x) * teams + threadIdx.x / Team;
  const bool works = row < args.rows;
  const In* x = typed<In>(args.x) + (works ? row : 0) * args.width;
  C top = -limits<C>::inf;
  if (works)
    for (i64 i = lane; i < args.width; i += Team) top = functors::Maximum{}(top, convert<C>(x[i]));
  top = join_team<Team>(top, functors::Maximum{});
  C sum = 0;
  if (works)
    for (i64 i = lane; i < args.width; i += Team) sum += math::exp(convert<C>(x[i]) - top);
  sum = join_team<Team>(sum, JoinSum{});
  if (!works) return;
  Out* y = typed<Out>(args.y) + row * args.width;
  const C shift = log ? top + math::log(sum) : top, scale = C(1) / sum;
  for (i64 i = lane; i < args.width; i += Team) {
    const C d = convert<C>(x[i]) - shift;
    y[i] = convert<Out>(log ? d : math::exp(d) * scale);
  }
}

}  // namespace rush
