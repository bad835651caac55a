#include "cpu/nn/embedding.h"

#include <algorithm>
#include <vector>

#include "core/interrupt.h"
#include "core/threads.h"
#include "cpu/lines.h"

namespace rush {

namespace {

constexpr int64_t kGrain = 16384;
constexpr int64_t kPerLook = 1 << 18;  // numbers between looks for an interrupt

template <class F>
void for_type(const Tensor& x, F&& f) {
  dispatch<DType::Float32, DType::Float64>("embedding", x.dtype(), std::forward<F>(f));
}

// Runs f(first row, end) so that each thread owns a range of the table's rows and meets the indices
// in their order: no two threads write one row, and sums do not depend on the number of threads.
template <class F>
void by_rows(int64_t rows, int64_t work, F&& f) {
  const int64_t threads = std::clamp<int64_t>(work / kGrain, 1, num_threads());
  parallel_for_whole(rows, (rows + threads - 1) / threads, std::forward<F>(f));
}

}  // namespace

void embedding_bag_cpu(const Tensor& table, const Bags& bags, const Tensor& out,
                       const Tensor& counts, const Tensor& places) {
  const int64_t width = table.sizes()[1];
  const int64_t *index = bags.index.data<int64_t>(), *bounds = bags.bounds.data<int64_t>();
  const int64_t work =
      std::max<int64_t>(1, bags.index.numel() * width / std::max<int64_t>(1, bags.size()));
  for_type(table, [&]<class T>() {
    const auto& lines = line_kernels<T>();
    const T* rows = table.data<T>();
    const T* weight = bags.weight.defined() ? bags.weight.data<T>() : nullptr;
    parallel_for(bags.size(), std::max<int64_t>(1, kGrain / work), [&](int64_t b, int64_t end) {
      for (; b < end; ++b) {
        T* y = out.data<T>() + b * width;
        int64_t* place = bags.mode == BagMode::Max ? places.data<int64_t>() + b * width : nullptr;
        int64_t count = 0;
        if (!place && bags.skip < 0) {
          count = bounds[b + 1] - bounds[b];
          lines.sum_rows(y, rows, index + bounds[b], weight ? weight + bounds[b] : nullptr, count,
                         width);
        } else {
          std::fill_n(y, width, T(0));
        }
        if (place) std::fill_n(place, width, int64_t(-1));
        for (int64_t i = bounds[b] + count; i < bounds[b + 1]; ++i) {
          if (index[i] == bags.skip) continue;
          const T* row = rows + index[i] * width;
          if (!place) {
            lines.add(y, row, weight ? weight[i] : T(1), width);
          } else if (count == 0) {
            std::copy_n(row, width, y);
            std::fill_n(place, width, index[i]);
          } else {
            lines.largest(y, place, row, index[i], width);
          }
          ++count;
        }
        counts.data<int64_t>()[b] = count;
        if (bags.mode == BagMode::Mean && count > 1) lines.scale(y, y, T(1) / T(count), width);
      }
    });
  });
}

void embedding_bag_backward_cpu(const Tensor& g, const Bags& bags, const Tensor& counts,
                                const Tensor& gtable) {
  const int64_t width = gtable.sizes()[1];
  const int64_t *index = bags.index.data<int64_t>(), *bounds = bags.bounds.data<int64_t>();
  for_type(g, [&]<class T>() {
    const auto& lines = line_kernels<T>();
    const T* weight = bags.weight.defined() ? bags.weight.data<T>() : nullptr;
    T* to = gtable.data<T>();
    by_rows(gtable.sizes()[0], gtable.numel() + bags.index.numel() * width,
            [&](int64_t first, int64_t end) {
              std::fill_n(to + first * width, (end - first) * width, T(0));
              InterruptCounter interrupts(kPerLook);
              for (int64_t b = 0; b < bags.size(); ++b) {
                interrupts.add(1 + (bounds[b + 1] - bounds[b]) * width);
                const int64_t count = counts.data<int64_t>()[b];
                const T share = bags.mode == BagMode::Mean && count > 1 ? T(1) / T(count) : T(1);
                for (int64_t i = bounds[b]; i < bounds[b + 1]; ++i) {
                  if (index[i] < first || index[i] >= end || index[i] == bags.skip) continue;
                  lines.add(to + index[i] * width, g.data<T>() + b * width,
                            weight ? weight[i] : share, width);
                }
              }
            });
  });
}

void embedding_bag_weights_cpu(const Tensor& g, const Tensor& table, const Bags& bags,
                               const Tensor& gweight) {
  const int64_t width = table.sizes()[1];
  const int64_t *index = bags.index.data<int64_t>(), *bounds = bags.bounds.data<int64_t>();
  for_type(table, [&]<class T>() {
    parallel_for(bags.size(), std::max<int64_t>(1, kGrain / std::max<int64_t>(1, width)),
                 [&](int64_t b, int64_t end) {
                   for (; b < end; ++b) {
                     for (int64_t i = bounds[b]; i < bounds[b + 1]; ++i) {
                       gweight.data<T>()[i] =
                           index[i] == bags.skip
                               ? T(0)
                               : line_kernels<T>().dot(g.data<T>() + b * width,
                                                       table.data<T>() + index[i] * width, width);
                     }
                   }
                 });
  });
}

void embedding_backward_cpu(const Tensor& g, const Tensor& index, int64_t skip, bool by_count,
                            const Tensor& gtable) {
  const int64_t rows = gtable.sizes()[0], width = gtable.sizes()[1], n = index.numel();
  const int64_t* at = index.data<int64_t>();
  std::vector<int64_t> counts;
  if (by_count) {
    counts.assign(size_t(rows), 0);
    for (int64_t i = 0; i < n; ++i) ++counts[size_t(at[i])];
  }
  for_type(g, [&]<class T>() {
    T* to = gtable.data<T>();
    by_rows(rows, gtable.numel() + n * width, [&](int64_t first, int64_t end) {
      std::fill_n(to + first * width, (end - first) * width, T(0));
      InterruptCounter interrupts(kPerLook);
      for (int64_t i = 0; i < n; ++i) {
        interrupts.add(width);
        if (at[i] < first || at[i] >= end || at[i] == skip) continue;
        const T share = by_count ? T(1) / T(counts[size_t(at[i])]) : T(1);
        line_kernels<T>().add(to + at[i] * width, g.data<T>() + i * width, share, width);
      }
    });
  });
}

}  // namespace rush
