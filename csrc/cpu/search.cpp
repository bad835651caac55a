#include "cpu/search.h"

#include <algorithm>
#include <cmath>

#include "cpu/loop_nest.h"
#include "functors/complex.h"

namespace rush {
namespace {

// The first place of [0, n) where `stop` holds, which stays true from there on. No branch depends on the data.
template <class F>
int64_t first_place(int64_t n, F&& stop) {
  int64_t begin = 0;
  while (n > 0) {
    const int64_t half = n / 2;
    const bool beyond = !stop(begin + half);
    begin = beyond ? begin + half + 1 : begin;
    n = beyond ? n - half - 1 : half;
  }
  return begin;
}

template <class T>
int64_t find(const T* row, const int64_t* order, int64_t n, T value, bool right) {
  const opmath<T> v = value;
  auto at = [&](int64_t i) { return opmath<T>(row[order ? order[i] : i]); };
  // Written so that a NaN is found at the end.
  if (right) return first_place(n, [&](int64_t i) { return at(i) > v; });
  return first_place(n, [&](int64_t i) { return at(i) >= v; });
}

}  // namespace

void search_sorted_cpu(const char* op, const Tensor& sorted, const Tensor& values, const Tensor& sorter, bool right, const Tensor& out) {
  if (values.numel() == 0) return;
  const int64_t n = sorted.dim() == 0 ? 1 : sorted.sizes().back();
  const int64_t row = sorted.dim() <= 1 ? values.numel() : values.sizes().back();
  dispatch_real(op, sorted.dtype(), [&]<typename T>() {
    dispatch<DType::Int64, DType::Int32>(op, out.dtype(), [&]<typename I>() {
      parallel_for(values.numel(), 4096, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t at = sorted.dim() <= 1 ? 0 : i / row * n;
          out.data<I>()[i] = I(find(sorted.data<T>() + at, sorter.defined() ? sorter.data<int64_t>() + at : nullptr, n, values.data<T>()[i], right));
        }
      });
    });
  });
}

void histogram_cpu(const char* op, const Tensor& x, const Tensor& weights, const std::vector<double>& edges, bool even, std::vector<double>& out) {
  const auto bins = int64_t(edges.size()) - 1;
  out.assign(size_t(std::max<int64_t>(bins, 0)), 0.0);
  if (bins < 1) return;
  const double lo = edges.front(), hi = edges.back(), scale = double(bins) / (hi - lo);
  dispatch_floating(op, x.dtype(), [&]<typename T>() {
    const T *p = x.data<T>(), *w = weights.defined() ? weights.data<T>() : nullptr;
    for (int64_t i = 0; i < x.numel(); ++i) {
      const double v = opmath<T>(p[i]);
      if (!(v >= lo && v <= hi)) continue;
      int64_t bin;
      if (even) {
        bin = std::min(int64_t((v - lo) * scale), bins - 1);
        // Rounding may have put it one bin beside the edges that users see.
        if (bin > 0 && v < edges[size_t(bin)]) --bin;
        else if (bin + 1 < bins && v >= edges[size_t(bin) + 1]) ++bin;
      } else {
        bin = std::min<int64_t>(std::upper_bound(edges.begin(), edges.end(), v) - edges.begin() - 1, bins - 1);
      }
      out[size_t(bin)] += w ? double(opmath<T>(w[i])) : 1.0;
    }
  });
}

}  // namespace rush
