// cat.cu: many tensors joined in one launch.
//
// - Seen from the joined dim, the output is `outer` runs, and each input gives a stretch of every
//   run: an input is (outer, run[k]), the stretches step[k] apart. Inputs of another type or layout
//   are copied by copy.cu into their place instead.
// - Blocks: y picks the input, x strides over its units. I is u32 where no input has 2^31 units.
#include "cuda/kernels/cat_args.h"
#include "cuda/kernels/element.h"

namespace rush {

// Where a unit of input k goes, and where it comes from.
struct CatPlace {
  i64 to, from;
  template <class I>
  static RUSH_FN CatPlace of(const CatArgs& args, int k, i64 i) {
    const i64 run = args.run[k];
    i64 row = 0;
    if (args.outer > 1) row = sizeof(I) == 4 ? i64(args.by_run[k](u32(i))) : i / run;
    return {row * args.out_run + (i - row * run), row * args.step[k] + (i - row * run)};
  }
};

template <class W, class I>
__global__ void __launch_bounds__(kThreads) cat(CatArgs args) {
  after_earlier();
  constexpr int U = 4;  // loads under way at once
  const int k = blockIdx.y;
  const W* in = typed<W>(args.in[k]);
  W* out = typed<W>(args.out) + args.place[k];
  const i64 n = args.outer * args.run[k], step = thread_count();
  i64 i = thread_number();
  for (; i + (U - 1) * step < n; i += U * step) {
    W held[U];
    i64 to[U];
#pragma unroll
    for (int u = 0; u < U; ++u) {
      const auto at = CatPlace::of<I>(args, k, i + u * step);
      held[u] = in[at.from];
      to[u] = at.to;
    }
#pragma unroll
    for (int u = 0; u < U; ++u) out[to[u]] = held[u];
  }
  for (; i < n; i += step) {
    const auto at = CatPlace::of<I>(args, k, i);
    out[at.to] = in[at.from];
  }
}

}  // namespace rush
