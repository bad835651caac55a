#include "cpu/sort/search.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/interrupt.h"
#include "cpu/loop_nest.h"
#include "device/loops.h"
#include "functors/complex.h"

namespace rush {
namespace {

// Halves the row as often for every value, so that no branch depends on the data and several
// searches run side by side, each waiting for its own memory. `at(i)` reads the row.
template <bool right, int lanes, class T, class At>
void find(At at, int64_t n, const T* values, int64_t* places) {
  opmath<T> v[lanes];
  for (int j = 0; j < lanes; ++j) v[j] = values[j], places[j] = 0;
  if (n == 0) return;
  // Written so that a NaN is found at the end.
  auto beyond = [](opmath<T> edge, opmath<T> value) {
    return right ? !(edge > value) : !(edge >= value);
  };
  for (; n > 1; n -= n / 2) {
    for (int j = 0; j < lanes; ++j)
      places[j] += beyond(at(places[j] + n / 2 - 1), v[j]) ? n / 2 : 0;
  }
  for (int j = 0; j < lanes; ++j) places[j] += beyond(at(places[j]), v[j]);
}

template <bool right, class T, class I>
void find_all(const T* row, const int64_t* order, int64_t n, const T* values, int64_t count,
              I* out) {
  constexpr int lanes = 8;
  int64_t places[lanes], i = 0;
  auto plain = [&](int64_t k) { return opmath<T>(row[k]); };
  auto sorted = [&](int64_t k) { return opmath<T>(row[order[k]]); };
  for (; i + lanes <= count; i += lanes) {
    if (order)
      find<right, lanes>(sorted, n, values + i, places);
    else
      find<right, lanes>(plain, n, values + i, places);
    for (int j = 0; j < lanes; ++j) out[i + j] = I(places[j]);
  }
  for (; i < count; ++i) {
    if (order)
      find<right, 1>(sorted, n, values + i, places);
    else
      find<right, 1>(plain, n, values + i, places);
    out[i] = I(places[0]);
  }
}

}  // namespace

void search_sorted(const char* op, const Tensor& sorted, const Tensor& values, const Tensor& sorter,
                   bool right, const Tensor& out) {
  if (values.numel() == 0) return;
  if (out.is_cuda())
    return device_loops(DeviceType::CUDA)
        .searches.search_sorted(sorted, values, sorter, right, out);
  const int64_t n = sorted.dim() == 0 ? 1 : sorted.sizes().back();
  const int64_t row = sorted.dim() <= 1 ? values.numel() : values.sizes().back();
  dispatch_real(op, sorted.dtype(), [&]<typename T>() {
    dispatch<DType::Int64, DType::Int32>(op, out.dtype(), [&]<typename I>() {
      parallel_for(values.numel(), 4096, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end;) {
          const int64_t at = sorted.dim() <= 1 ? 0 : i / row * n,
                        count = std::min(end - i, row - i % row);
          const int64_t* order = sorter.defined() ? sorter.data<int64_t>() + at : nullptr;
          if (right)
            find_all<true>(sorted.data<T>() + at, order, n, values.data<T>() + i, count,
                           out.data<I>() + i);
          else
            find_all<false>(sorted.data<T>() + at, order, n, values.data<T>() + i, count,
                            out.data<I>() + i);
          i += count;
        }
      });
    });
  });
}

void histogram_into(const char* op, const Tensor& x, const Tensor& weights, const Tensor& at,
                    bool even, const Tensor& counts) {
  const int64_t bins = counts.numel();
  if (bins < 1) return;
  if (x.is_cuda())
    return device_loops(DeviceType::CUDA).searches.histogram(x, weights, at, even, counts);
  const std::span<const double> edges(at.data<double>(), size_t(bins) + 1);
  double* out = counts.data<double>();
  const double lo = edges.front(), hi = edges.back(), scale = double(bins) / (hi - lo);
  dispatch_floating(op, x.dtype(), [&]<typename T>() {
    const T *p = x.data<T>(), *w = weights.defined() ? weights.data<T>() : nullptr;
    in_steps(x.numel(), 1 << 18, [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        const double v = opmath<T>(p[i]);
        if (!(v >= lo && v <= hi)) continue;
        int64_t bin;
        if (even) {
          bin = std::min(int64_t((v - lo) * scale), bins - 1);
          // Rounding may have put it one bin beside the edges that users see.
          if (bin > 0 && v < edges[size_t(bin)])
            --bin;
          else if (bin + 1 < bins && v >= edges[size_t(bin) + 1])
            ++bin;
        } else {
          bin = std::min<int64_t>(
              std::upper_bound(edges.begin(), edges.end(), v) - edges.begin() - 1, bins - 1);
        }
        out[size_t(bin)] += w ? double(opmath<T>(w[i])) : 1.0;
      }
    });
  });
}

}  // namespace rush
