// Rows of a table on the CPU: looked up, summed bag by bag, and gradients of the table.
#include "device/nn/embedding.h"

#include <algorithm>
#include <vector>

#include "core/interrupt.h"
#include "core/threads.h"
#include "cpu/lines.h"
#include "cpu/prepare.h"
#include "device/index.h"

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

// ---- the loops: float32 or float64, contiguous; indices are int64 and have been checked ----

void sum_bags(const Tensor& table, const Bags& bags, const Tensor& out, const Tensor& counts,
              const Tensor& places) {
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

void sum_bags_backward(const Tensor& g, const Bags& bags, const Tensor& counts,
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

void bag_weights_grad(const Tensor& g, const Tensor& table, const Bags& bags,
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

void add_rows(const Tensor& g, const Tensor& index, int64_t skip, bool by_count,
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

// ---- what ops call ----

Tensor as_int64(const Tensor& index) { return cpu::converted(index, DType::Int64); }

Bags in_loop_types(const Bags& bags) {
  return {as_int64(bags.index), bags.bounds,
          bags.weight.defined() ? cpu::in_loop_type(bags.weight) : bags.weight, bags.mode,
          bags.skip};
}

void check_bounds(const Bags& bags) {
  const int64_t* at = bags.bounds.data<int64_t>();
  for (int64_t b = 0; b < bags.size(); ++b)
    check(at[b] >= 0 && at[b] <= at[b + 1] && at[b + 1] <= bags.index.numel(), ErrorKind::Runtime,
          "embedding_bag", "offsets must rise from 0 to the ", bags.index.numel(), " indices, got ",
          at[b], " before ", at[b + 1]);
}

void embedding_cpu(const Tensor& table, const Tensor& given, const Tensor& out) {
  const IndexRange range{"embedding", table.sizes()[0], table.sizes()[1], 0, false};
  const Tensor index = as_int64(given);
  if (out.numel() == 0) return check_indices(index, range);
  index_loops(out).copy_slices(out, cpu::contiguous(table), index, 1,
                               table.sizes()[1] * table.element_size(), range);
}

void embedding_backward_cpu(const Tensor& g, const Tensor& index, int64_t skip, bool by_count,
                            const Tensor& gtable) {
  cpu::into(gtable, [&](const Tensor& to) {
    add_rows(cpu::in_loop_type(g), as_int64(index), skip, by_count, to);
  });
}

void embedding_bag_cpu(const Tensor& table, const Bags& given, const Tensor& out,
                       const Tensor& counts, const Tensor& places) {
  const Bags bags = in_loop_types(given);
  check_indices(bags.index, {"embedding_bag", table.sizes()[0], table.sizes()[1], 0, false});
  check_bounds(bags);
  cpu::into(out,
            [&](const Tensor& y) { sum_bags(cpu::in_loop_type(table), bags, y, counts, places); });
}

void embedding_bag_backward_cpu(const Tensor& g, const Bags& bags, const Tensor& counts,
                                const Tensor& gtable) {
  cpu::into(gtable, [&](const Tensor& to) {
    sum_bags_backward(cpu::in_loop_type(g), in_loop_types(bags), counts, to);
  });
}

void embedding_bag_weights_cpu(const Tensor& g, const Tensor& table, const Bags& bags,
                               const Tensor& gweight) {
  cpu::into(gweight, [&](const Tensor& to) {
    // Indices in front of the first bag or behind the last one are in none.
    fill_cpu(to, 0);
    bag_weights_grad(cpu::in_loop_type(g), cpu::in_loop_type(table), in_loop_types(bags), to);
  });
}

const bool registered = [] {
  embedding_loops(DeviceType::CPU) = {embedding_cpu, embedding_backward_cpu, embedding_bag_cpu,
                                      embedding_bag_backward_cpu, embedding_bag_weights_cpu};
  return true;
}();

}  // namespace
}  // namespace rush
