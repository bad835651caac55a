// select.cu: one element of each sorted row: the k-th, the median, the most frequent.
#include "cuda/kernels/block.h"
#include "cuda/kernels/sort_args.h"
#include "functors/order_keys.h"

namespace rush {

// A thread a row. NaNs stand at the end.
template <class T>
__global__ void __launch_bounds__(kThreads) pick_rows(PickArgs args) {
  after_earlier();
  for (i64 row = thread_number(); row < args.rows; row += thread_count()) {
    const T* sorted = typed<T>(args.sorted) + row * args.length;
    i64 place = args.k;
    if (args.rank != 0) {
      i64 numbers = 0, end = args.length;  // how many are no NaN
      if constexpr (is_float_like<T>) {
        while (numbers < end) {
          const i64 middle = (numbers + end) / 2;
          if (is_nan_value(sorted[middle]))
            end = middle;
          else
            numbers = middle + 1;
        }
      } else {
        numbers = args.length;
      }
      const bool whole = args.rank == 1 || numbers == 0;
      const bool nan = whole && numbers < args.length;  // then the first of them
      place = nan ? numbers : ((whole ? args.length : numbers) - 1) / 2;
    }
    if (args.values) typed<T>(args.values)[row] = sorted[place];
    if (args.indices) args.indices[row] = args.order[row * args.length + place];
  }
}

struct Run {
  i64 count, end;
};
RUSH_FN Run longer(const Run& a, const Run& b) {
  return b.count > a.count || (b.count == a.count && b.end < a.end) ? b : a;
}

// Blocks: x over segments of the row, y over rows.
template <class T>
__global__ void __launch_bounds__(kThreads) mode_runs(ModeArgs args) {
  after_earlier();
  __shared__ Run runs[kThreads];
  const i64 share = (args.length + args.segments - 1) / args.segments;
  for (i64 row = blockIdx.y; row < args.rows; row += gridDim.y) {
    const T* sorted = typed<T>(args.sorted) + row * args.length;
    const i64 begin = i64(blockIdx.x) * share;
    const i64 end = begin + share < args.length ? begin + share : args.length;
    Run best{0, 0};
    for (i64 i = begin + threadIdx.x; i < end; i += kThreads) {
      const auto key = order_key(sorted[i]);
      if (i + 1 < args.length && order_key(sorted[i + 1]) == key) continue;
      // The run ends here; its start is found in steps that double, then by halving.
      i64 step = 1;
      while (step <= i && order_key(sorted[i - step]) == key) step *= 2;
      i64 low = step > i ? 0 : i - step + 1, high = i - step / 2;
      while (low < high) {
        const i64 middle = (low + high) / 2;
        if (order_key(sorted[middle]) == key)
          high = middle;
        else
          low = middle + 1;
      }
      best = longer(best, {i - high + 1, i});
    }
    runs[threadIdx.x] = best;
    for (int half = kThreads / 2; half > 0; half /= 2) {
      __syncthreads();
      if (int(threadIdx.x) < half)
        runs[threadIdx.x] = longer(runs[threadIdx.x], runs[threadIdx.x + half]);
    }
    if (threadIdx.x == 0) {
      i64* to = args.partial + (row * args.segments + blockIdx.x) * 2;
      to[0] = runs[0].count;
      to[1] = runs[0].end;
    }
    __syncthreads();
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) mode_join(ModeArgs args) {
  after_earlier();
  for (i64 row = thread_number(); row < args.rows; row += thread_count()) {
    Run best{0, 0};
    for (i64 s = 0; s < args.segments; ++s) {
      const i64* from = args.partial + (row * args.segments + s) * 2;
      best = longer(best, {from[0], from[1]});
    }
    const i64 place = row * args.length + best.end;
    typed<T>(args.values)[row] = typed<T>(args.sorted)[place];
    args.indices[row] = args.order[place];
  }
}

}  // namespace rush
