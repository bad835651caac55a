// resample.cu: weighted sums of neighbours along one dim, and their adjoint; patches of images and
// theirs. A thread takes one element of the result and gathers what it is made of: nothing is
// atomic. T is the type of memory, C what is computed in.
#include "cuda/kernels/element.h"
#include "cuda/kernels/resample_args.h"

namespace rush {

// (outer, in, inner) -> (outer, out, inner)
template <class C, class T>
__global__ void __launch_bounds__(kThreads) resample(ResampleArgs args) {
  after_earlier();
  const T* x = typed<T>(args.x);
  for (i64 n = thread_number(); n < args.n; n += thread_count()) {
    const i64 line = n / args.inner, outer = line / args.how.out;
    const i64 base = outer * args.how.in * args.inner + (n - line * args.inner);
    C sum = 0;
    each_tap(args.how, line - outer * args.how.out, [&](i64 k, double weight) {
      sum += C(weight) * convert<C>(x[base + k * args.inner]);
    });
    typed<T>(args.y)[n] = convert<T>(sum);
  }
}

// Up to three dims at once, none of a mode that smooths. blockIdx.y goes through the outer ones.
template <class C, class T>
__global__ void __launch_bounds__(kThreads) resample_image(ResampleImageArgs args) {
  after_earlier();
  const i64 n = thread_number();
  if (n >= args.n) return;
  i64 rest = n / args.inner, place[3][4];
  const i64 inner = n - rest * args.inner;
  C weight[3][4];
  int taps[3];
#pragma unroll
  for (int d = 2; d >= 0; --d) {
    const i64 up = rest / args.how[d].out;
    int k = 0;
    each_tap(args.how[d], rest - up * args.how[d].out, [&](i64 at, double w) {
      place[d][k] = at;
      weight[d][k++] = C(w);
    });
    taps[d] = k;
    rest = up;
  }
  const i64 height = args.how[1].in, width = args.how[2].in;
  const i64 image = args.how[0].in * height * width * args.inner;
  for (i64 o = blockIdx.y; o < args.outer; o += gridDim.y) {
    const T* x = typed<T>(args.x) + o * image + inner;
    C sum = 0;
    for (int a = 0; a < taps[0]; ++a) {
      for (int b = 0; b < taps[1]; ++b) {
        const C factor = weight[0][a] * weight[1][b];
        const i64 line = (place[0][a] * height + place[1][b]) * width;
        for (int c = 0; c < taps[2]; ++c)
          sum += factor * weight[2][c] * convert<C>(x[(line + place[2][c]) * args.inner]);
      }
    }
    typed<T>(args.y)[o * args.n + n] = convert<T>(sum);
  }
}

// x: the outputs' gradient, y: the inputs'.
template <class C, class T>
__global__ void __launch_bounds__(kThreads) resample_backward(ResampleArgs args) {
  after_earlier();
  const T* g = typed<T>(args.x);
  for (i64 n = thread_number(); n < args.n; n += thread_count()) {
    const i64 line = n / args.inner, outer = line / args.how.in;
    const i64 own = line - outer * args.how.in;
    const i64 base = outer * args.how.out * args.inner + (n - line * args.inner);
    i64 first, last;
    outputs_near(args.how, own, first, last);
    C sum = 0;
    for (i64 i = first; i <= last; ++i) {
      double weight = 0;
      each_tap(args.how, i, [&](i64 k, double w) { weight += k == own ? w : 0; });
      if (weight != 0) sum += C(weight) * convert<C>(g[base + i * args.inner]);
    }
    typed<T>(args.y)[n] = convert<T>(sum);
  }
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
