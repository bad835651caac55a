// search.cu: finding values among sorted ones, and counting them.
//
// - Bins that are few are counted in shared memory first, so that blocks meet only once per bin.
// - Whole counts are exact in any order; weights are added up in the order in which they happen.
#include "cuda/kernels/element.h"
#include "cuda/kernels/search_args.h"

namespace rush {

template <class T, class Out>
__global__ void __launch_bounds__(kThreads) search_sorted(SearchArgs args) {
  after_earlier();
  using C = opmath<T>;
  for (i64 i = thread_number(); i < args.n; i += thread_count()) {
    const i64 first = args.row > 0 ? i / args.row * args.length : 0;
    const T* row = typed<T>(args.sorted) + first;
    const i64* order = args.sorter ? args.sorter + first : nullptr;
    const C value = convert<C>(typed<T>(args.values)[i]);
    i64 low = 0, high = args.length;
    while (low < high) {
      const i64 middle = low + (high - low) / 2;
      const C edge = convert<C>(row[order ? order[middle] : middle]);
      // Written so that a NaN is found at the end.
      if (args.right ? !(edge > value) : !(edge >= value))
        low = middle + 1;
      else
        high = middle;
    }
    typed<Out>(args.out)[i] = Out(low);
  }
}

// ---- counting ----

inline constexpr int kSharedBins = 2048;

// Adds W (1 for whole counts) to bins: through shared memory where they fit.
template <class W, class Global, class Bin, class Weight>
RUSH_FN void count_into(Global* counts, i64 bins, i64 n, Bin bin_of, Weight weight_of) {
  __shared__ W few[kSharedBins];
  const bool fits = bins <= kSharedBins;
  if (fits) {
    for (int b = threadIdx.x; b < bins; b += kThreads) few[b] = W(0);
    __syncthreads();
  }
  for (i64 i = thread_number(); i < n; i += thread_count()) {
    const i64 bin = bin_of(i);
    if (bin < 0) continue;
    if (fits)
      atomicAdd(&few[bin], W(weight_of(i)));
    else
      atomicAdd(&counts[bin], Global(weight_of(i)));
  }
  if (!fits) return;
  __syncthreads();
  for (int b = threadIdx.x; b < bins; b += kThreads)
    if (few[b] != W(0)) atomicAdd(&counts[b], Global(few[b]));
}

template <class T>
RUSH_FN i64 bin_of(const HistogramArgs& args, i64 i) {
  const double v = double(convert<opmath<T>>(typed<T>(args.x)[i]));
  const double lo = args.edges[0], hi = args.edges[args.bins];
  if (!(v >= lo && v <= hi)) return -1;
  const i64 last = args.bins - 1;
  if (args.even) {
    const i64 guess = i64((v - lo) * (double(args.bins) / (hi - lo)));
    i64 bin = guess < last ? guess : last;
    // Rounding may have put it one bin beside the edges that users see.
    if (bin > 0 && v < args.edges[bin])
      --bin;
    else if (bin < last && v >= args.edges[bin + 1])
      ++bin;
    return bin;
  }
  i64 low = 0, high = args.bins + 1;  // the first edge above v
  while (low < high) {
    const i64 middle = (low + high) / 2;
    if (args.edges[middle] > v)
      high = middle;
    else
      low = middle + 1;
  }
  return low - 1 < last ? low - 1 : last;
}

template <class T>
__global__ void __launch_bounds__(kThreads) histogram(HistogramArgs args) {
  after_earlier();
  count_into<u32>(
      args.counts, args.bins, args.n, [&](i64 i) { return bin_of<T>(args, i); },
      [](i64) { return 1u; });
}
template <class T>
__global__ void __launch_bounds__(kThreads) histogram_weighted(HistogramArgs args) {
  after_earlier();
  count_into<double>(
      args.counts, args.bins, args.n, [&](i64 i) { return bin_of<T>(args, i); },
      [&](i64 i) { return double(convert<opmath<T>>(typed<T>(args.weights)[i])); });
}

// T: of the counts. i64 counts come without weights.
template <class T>
__global__ void __launch_bounds__(kThreads) count_values(CountArgs args) {
  after_earlier();
  const auto bin = [&](i64 i) { return args.x[i]; };
  if constexpr (is_int<T>)
    count_into<u32>(typed<unsigned long long>(args.counts), args.bins, args.n, bin,
                    [](i64) { return 1u; });
  else
    count_into<T>(typed<T>(args.counts), args.bins, args.n, bin,
                  [&](i64 i) { return typed<T>(args.weights)[i]; });
}

}  // namespace rush
