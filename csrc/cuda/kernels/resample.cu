// resample.cu: weighted sums of neighbours along one dim, and their adjoint; patches of images and
// theirs. Every element of a result is gathered from what it is made of: nothing is atomic. T is
// the type of memory, C what is computed in.
//
// - Weights take dozens of instructions in double. A thread has one place of the image and goes
//   through many images, so that it works them out once (resample_image), or they come from a table
//   that a launch of its own has filled (resample).
// - kPlanes images at a time: their loads are under way together.
#include "cuda/kernels/element.h"
#include "cuda/kernels/resample_args.h"

namespace rush {

inline constexpr int kPlanes = 4;

// Calls f(neighbour, weight) for a row of the table.
template <bool backward, class F>
RUSH_FN void each_neighbour(const Resampling& how, i64 row, F f) {
  if constexpr (backward) {
    i64 first, last;
    outputs_near(how, row, first, last);
    for (i64 i = first; i <= last; ++i) {
      double weight = 0;
      each_tap(how, i, [&](i64 k, double w) { weight += k == row ? w : 0; });
      if (weight != 0) f(i, weight);
    }
  } else {
    each_tap(how, row, f);
  }
}

template <class C, bool backward>
__global__ void __launch_bounds__(kThreads) resample_table(ResampleTableArgs args) {
  after_earlier();
  const Resampling& how = args.how;
  const i64 size = backward ? how.out : how.in;
  for (i64 row = thread_number(); row < args.table.rows; row += thread_count()) {
    i64 low = size, high = -1;
    each_neighbour<backward>(how, row, [&](i64 k, double) {
      low = k < low ? k : low;
      high = k > high ? k : high;
    });
    C* weights = typed<C>(args.table.weights) + row * args.table.taps;
    for (i64 k = 0; k <= high - low; ++k) weights[k] = 0;
    each_neighbour<backward>(how, row, [&](i64 k, double w) { weights[k - low] += C(w); });
    args.table.spans[row] = {i32(low), i32(high < low ? 0 : high - low + 1)};
  }
}

// n images, `step` from each other: x is where the first neighbour lies in the first one, y where
// its result goes.
template <int n, class C, class T>
RUSH_FN void gather(const ResampleArgs& args, const T* x, T* y, const C* weights, int count,
                    i64 step) {
  C sum[n] = {};
  for (int k = 0; k < count; ++k) {
    const C weight = weights[k];
#pragma unroll
    for (int u = 0; u < n; ++u)
      sum[u] += weight * convert<C>(x[u * step * args.in * args.inner + k * args.inner]);
  }
#pragma unroll
  for (int u = 0; u < n; ++u) y[u * step * args.points] = convert<T>(sum[u]);
}

// Blocks: x over an outer one's points, y through the outer ones.
template <class C, class T>
__global__ void __launch_bounds__(kThreads) resample(ResampleArgs args) {
  after_earlier();
  const bool beside = args.side > 1;
  const i64 point = beside ? threadIdx.x % args.points : thread_number();
  const i64 lane = beside ? threadIdx.x / args.points : 0;
  if (point >= args.points || lane >= args.side) return;
  const i64 row = point / args.inner, image = args.in * args.inner;
  const C* weights = typed<C>(args.table.weights) + row * args.table.taps;
  const ResampleSpan span = args.table.spans[row];
  const T* x = typed<T>(args.x) + span.first * args.inner + (point - row * args.inner);
  T* y = typed<T>(args.y) + point;
  const i64 step = i64(gridDim.y) * args.side;
  i64 o = i64(blockIdx.y) * args.side + lane;
  for (; o + (kPlanes - 1) * step < args.outer; o += kPlanes * step)
    gather<kPlanes>(args, x + o * image, y + o * args.points, weights, span.count, step);
  for (; o < args.outer; o += step)
    gather<1>(args, x + o * image, y + o * args.points, weights, span.count, step);
}

// n images that are `step` elements from each other, and their results `y_step`.
template <int n, int taps, class C, class T>
RUSH_FN void gather_image(const T* x, T* y, const i64 (&from)[taps], const C (&weight)[taps],
                          i64 step, i64 y_step) {
  C sum[n] = {};
#pragma unroll
  for (int u = 0; u < n; ++u) {
#pragma unroll
    for (int k = 0; k < taps; ++k) {
      const C here = convert<C>(x[u * step + from[k]]);
      sum[u] = taps == 1 ? here : sum[u] + weight[k] * here;
    }
  }
#pragma unroll
  for (int u = 0; u < n; ++u) y[u * y_step] = convert<T>(sum[u]);
}

// Two dims at once (deep: three), none of a mode that smooths, `taps` neighbours along each.
// blockIdx.y goes through the outer ones.
template <class C, class T, int taps, bool deep>
__global__ void __launch_bounds__(kThreads) resample_image(ResampleImageArgs args) {
  after_earlier();
  const i64 n = thread_number();
  if (n >= args.n) return;
  constexpr int kDepth = deep ? taps : 1;
  i64 rest = n / args.inner, place[3][taps];
  const i64 inner = n - rest * args.inner;
  C along[3][taps];
#pragma unroll
  for (int d = 2; d >= (deep ? 0 : 1); --d) {
    const i64 up = rest / args.how[d].out;
    Resampling how = args.how[d];
    if constexpr (taps > 1) how.mode = taps == 2 ? ResampleMode::Linear : ResampleMode::Cubic;
    int k = 0;
    each_tap(how, rest - up * how.out, [&](i64 at, double w) {
      if (k >= taps) return;
      place[d][k] = at;
      along[d][k++] = C(w);
    });
    rest = up;
  }
  C weight[kDepth * taps * taps];
  i64 from[kDepth * taps * taps];
#pragma unroll
  for (int k = 0; k < kDepth * taps * taps; ++k) {
    const int a = k / (taps * taps), b = k / taps % taps, c = k % taps;
    const i64 line = (deep ? place[0][a] : i64(0)) * args.how[1].in + place[1][b];
    from[k] = (line * args.how[2].in + place[2][c]) * args.inner + inner;
    weight[k] = (deep ? along[0][a] : C(1)) * along[1][b] * along[2][c];
  }
  const i64 image = args.how[0].in * args.how[1].in * args.how[2].in * args.inner;
  const i64 blocks = gridDim.y;
  const T* x = typed<T>(args.x);
  T* y = typed<T>(args.y) + n;
  i64 o = blockIdx.y;
  for (; o + (kPlanes - 1) * blocks < args.outer; o += kPlanes * blocks)
    gather_image<kPlanes>(x + o * image, y + o * args.n, from, weight, blocks * image,
                          blocks * args.n);
  for (; o < args.outer; o += blocks)
    gather_image<1>(x + o * image, y + o * args.n, from, weight, i64(0), i64(0));
}

// ---- patches: columns are (plane, kernel point, output point) ----

template <class W>
__global__ void __launch_bounds__(kThreads) unfold(PatchArgs args) {
  after_earlier();
  const i64 points = args.out[0] * args.out[1], kernel = args.kernel[0] * args.kernel[1];
  for (i64 n = thread_number(); n < args.n; n += thread_count()) {
    const i64 row = n / points, o = n - row * points, plane = row / kernel,
              k = row - plane * kernel;
    const i64 oy = o / args.out[1], ox = o - oy * args.out[1];
    const i64 ky = k / args.kernel[1], kx = k - ky * args.kernel[1];
    const i64 y = oy * args.stride[0] - args.padding[0] + ky * args.dilation[0];
    const i64 x = ox * args.stride[1] - args.padding[1] + kx * args.dilation[1];
    const bool inside = y >= 0 && y < args.in[0] && x >= 0 && x < args.in[1];
    typed<W>(args.y)[n] =
        inside ? typed<W>(args.x)[(plane * args.in[0] + y) * args.in[1] + x] : W{};
  }
}

// Adds up the columns' elements that were made of one element.
template <class C, class T>
__global__ void __launch_bounds__(kThreads) fold(PatchArgs args) {
  after_earlier();
  const i64 points = args.out[0] * args.out[1];
  for (i64 n = thread_number(); n < args.n; n += thread_count()) {
    const i64 line = n / args.in[1], x = n - line * args.in[1];
    const i64 plane = line / args.in[0], y = line - plane * args.in[0];
    C sum = C(0);
    for (i64 ky = 0; ky < args.kernel[0]; ++ky) {
      const i64 up = y + args.padding[0] - ky * args.dilation[0], oy = up / args.stride[0];
      if (up < 0 || oy >= args.out[0] || oy * args.stride[0] != up) continue;
      for (i64 kx = 0; kx < args.kernel[1]; ++kx) {
        const i64 left = x + args.padding[1] - kx * args.dilation[1], ox = left / args.stride[1];
        if (left < 0 || ox >= args.out[1] || ox * args.stride[1] != left) continue;
        const i64 row = (plane * args.kernel[0] + ky) * args.kernel[1] + kx;
        sum = sum + convert<C>(typed<T>(args.x)[row * points + oy * args.out[1] + ox]);
      }
    }
    typed<T>(args.y)[n] = convert<T>(sum);
  }
}

}  // namespace rush
