// cat.cu: many tensors joined in one launch.
//
// - Seen from the joined dim, the output is `outer` runs, and each input gives a stretch of every
//   run: an input is (outer, run[k]), the stretches step[k] apart. Inputs of another type or layout
//   are copied by copy.cu into their place instead.
// - Blocks: y picks the input, x strides over its units. I is u32 where no input has 2^31 units.
#include "cuda/kernels/cat_args.h"
#include "cuda/kernels/element.h"

namespace rush {

template <class W, class I>
__global__ void __launch_bounds__(kThreads) cat(CatArgs args) {
  after_earlier();
  const int k = blockIdx.y;
  const W* in = typed<W>(args.in[k]);
  W* out = typed<W>(args.out) + args.place[k];
  const i64 run = args.run[k], step = args.step[k], n = args.outer * run;
  for (i64 i = thread_number(); i < n; i += thread_count()) {
    i64 row = 0;
    if (args.outer > 1) row = sizeof(I) == 4 ? i64(args.by_run[k](u32(i))) : i / run;
    out[row * args.out_run + (i - row * run)] = in[row * step + (i - row * run)];
  }
}

}  // namespace rush
