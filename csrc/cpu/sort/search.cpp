// Positions in sorted rows, and counts of values.
#include <algorithm>
#include <cmath>
#include <span>

#include "core/interrupt.h"
#include "cpu/loop_nest.h"
#include "device/sort.h"
#include "functors/complex.h"

namespace rush {
namespace {

constexpr int64_t kPerLook = 1 << 18;  // elements between looks for an interrupt

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

void search_sorted(const char* op, const Tensor& sorted, const Tensor& values, const Tensor& sorter,
                   bool right, const Tensor& out) {
  if (values.numel() == 0) return;
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

void stands_at(const char* op, const Tensor& x, const Tensor& sorted, const Tensor& places,
               bool invert, const Tensor& out) {
  dispatch_real(op, x.dtype(), [&]<typename T>() {
    const int64_t* at = places.data<int64_t>();
    parallel_for(x.numel(), kGrain, [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        const bool found = at[i] < sorted.numel() &&
                           opmath<T>(sorted.data<T>()[at[i]]) == opmath<T>(x.data<T>()[i]);
        out.data<bool>()[i] = found != invert;
      }
    });
  });
}

void bincount(const Tensor& x, const Tensor& weights, const Tensor& counts) {
  const int64_t* p = x.data<int64_t>();
  dispatch<DType::Int64, DType::Float32, DType::Float64>(
      "bincount", counts.dtype(), [&]<typename T>() {
        const T* each = weights.defined() ? weights.data<T>() : nullptr;
        T* to = counts.data<T>();
        in_steps(x.numel(), kPerLook, [&](int64_t i, int64_t end) {
          if (each) {
            for (; i < end; ++i) to[p[i]] += each[i];
          } else {
            for (; i < end; ++i) to[p[i]] += T(1);
          }
        });
      });
}

void histogram(const char* op, const Tensor& x, const Tensor& weights, const Tensor& at, bool even,
               const Tensor& counts) {
  const int64_t bins = counts.numel();
  if (bins < 1) return;
  const std::span<const double> edges(at.data<double>(), size_t(bins) + 1);
  double* out = counts.data<double>();
  const double lo = edges.front(), hi = edges.back(), scale = double(bins) / (hi - lo);
  dispatch_floating(op, x.dtype(), [&]<typename T>() {
    const T *p = x.data<T>(), *w = weights.defined() ? weights.data<T>() : nullptr;
    in_steps(x.numel(), kPerLook, [&](int64_t i, int64_t end) {
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

const bool registered = [] {
  SortLoops& loops = sort_loops(DeviceType::CPU);
  loops.search_sorted = search_sorted;
  loops.stands_at = stands_at;
  loops.histogram = histogram;
  loops.bincount = bincount;
  return true;
}();

}  // namespace
}  // namespace rush
