// unique.cu: where runs of equal slices begin, and slices in order.
//
// Slices are sorted by merging: each finds its place in the run beside its own by halving, so that
// a pass needs no more than the positions of before. Equal slices keep their order: a slice of the
// left run goes before its equals on the right.
#include "cuda/kernels/element.h"
#include "cuda/kernels/search_args.h"
#include "functors/order_keys.h"

namespace rush {

template <class T>
__global__ void __launch_bounds__(kThreads) mark_runs(RunArgs args) {
  after_earlier();
  for (i64 i = thread_number(); i < args.count; i += thread_count()) {
    bool starts = i == 0;
    if (!starts) {
      const T* own = typed<T>(args.slices) + (args.order ? args.order[i] : i) * args.length;
      const T* last =
          typed<T>(args.slices) + (args.order ? args.order[i - 1] : i - 1) * args.length;
      for (i64 k = 0; k < args.length && !starts; ++k)
        starts = !(convert<opmath<T>>(own[k]) == convert<opmath<T>>(last[k]));
    }
    args.starts[i] = starts;
  }
}

// Is slice a before slice b?
template <class T>
RUSH_FN bool comes_before(const MergeArgs& args, i64 a, i64 b) {
  const T *x = typed<T>(args.slices) + a * args.length,
          *y = typed<T>(args.slices) + b * args.length;
  for (i64 k = 0; k < args.length; ++k) {
    const auto u = order_key(x[k]), v = order_key(y[k]);
    if (u != v) return u < v;
  }
  return false;
}

template <class T>
__global__ void __launch_bounds__(kThreads) merge_slices(MergeArgs args) {
  after_earlier();
  for (i64 i = thread_number(); i < args.count; i += thread_count()) {
    const i64 run = i / args.width, begin = run * args.width, own = args.from[i];
    const bool left = run % 2 == 0;
    // The run beside it.
    const i64 other = left ? begin + args.width : begin - args.width;
    i64 low = other < args.count ? other : args.count;
    i64 high = other + args.width < args.count ? other + args.width : args.count;
    const i64 start = low;
    while (low < high) {
      const i64 middle = (low + high) / 2, there = args.from[middle];
      const bool before =
          left ? comes_before<T>(args, there, own) : !comes_before<T>(args, own, there);
      if (before)
        low = middle + 1;
      else
        high = middle;
    }
    args.to[(left ? begin : other) + (i - begin) + (low - start)] = own;
  }
}

}  // namespace rush
