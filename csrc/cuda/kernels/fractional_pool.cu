// fractional_pool.cu: maxima over windows whose places a random sample of each plane decides. A
// thread takes one output. T is the type of memory, C what places are computed in.
#include "cuda/kernels/element.h"
#include "cuda/kernels/fractional_pool_args.h"

namespace rush {

// Where window i begins: steps of alpha on average, shifted by the sample, the last one at the very
// end.
template <class C>
RUSH_FN i64 window_start(C sample, i64 in, i64 out, i64 kernel, i64 i) {
  if (i == out - 1) return in - kernel;
  const C alpha = C(in - kernel) / C(out - 1);
  return i64((C(i) + sample) * alpha) - i64(sample * alpha);
}

template <class C, class T>
__global__ void __launch_bounds__(kThreads) fractional_max_pool(FractionalPoolArgs args) {
  after_earlier();
  const i64 points = args.out[0] * args.out[1] * args.out[2];
  const i64 area = args.in[0] * args.in[1] * args.in[2];
  for (i64 n = thread_number(); n < args.n; n += thread_count()) {
    const i64 plane = n / points;
    i64 rest = n - plane * points, start[3];
#pragma unroll
    for (int d = 2; d >= 0; --d) {
      const i64 up = rest / args.out[d], i = rest - up * args.out[d], own = d - (3 - args.dims);
      rest = up;
      start[d] = 0;
      if (own < 0) continue;
      // The samples of a 2-d image come x first.
      const i64 which = args.dims == 2 ? 1 - own : own;
      const C sample = convert<C>(typed<T>(args.samples)[plane * args.dims + which]);
      start[d] = window_start(sample, args.in[d], args.out[d], args.kernel[d], i);
    }
    const T* x = typed<T>(args.x) + plane * area;
    i64 best = (start[0] * args.in[1] + start[1]) * args.in[2] + start[2];
    C most = convert<C>(x[best]);
    for (i64 z = start[0]; z < start[0] + args.kernel[0]; ++z)
      for (i64 y = start[1]; y < start[1] + args.kernel[1]; ++y)
        for (i64 w = start[2]; w < start[2] + args.kernel[2]; ++w) {
          const i64 at = (z * args.in[1] + y) * args.in[2] + w;
          const C v = convert<C>(x[at]);
          if (v > most || v != v) most = v, best = at;
        }
    typed<T>(args.y)[n] = x[best];
    args.indices[n] = best;
  }
}

}  // namespace rush
