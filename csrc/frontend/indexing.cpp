#include "frontend/indexing.h"

#include <algorithm>

#include "ops/index/index_steps.h"

namespace rush::indexing {
namespace {

template <class... F>
struct Cases : F... {
  using F::operator()...;
};

SliceRange range_of(const Slice& slice, int64_t size) {
  const int64_t step = slice.step().value_or(1);
  check(step > 0, ErrorKind::Value, "", "slice step must be greater than zero, got ", step);
  const auto inside = [size](int64_t i) {
    return std::clamp<int64_t>(i < 0 ? i + size : i, 0, size);
  };
  const int64_t start = inside(slice.start().value_or(0));
  const int64_t stop = inside(slice.stop().value_or(size));
  const int64_t length = stop > start ? (stop - start - 1) / step + 1 : 0;
  return {start, stop, step, length};
}

int64_t dims_used(const TensorIndex& index) {
  return std::visit(
      Cases{[](int64_t) -> int64_t { return 1; }, [](const Slice&) -> int64_t { return 1; },
            [](const Tensor& t) { return is_mask(t) ? t.dim() : int64_t(1); },
            [](auto) -> int64_t { return 0; }},
      index.item());
}

IndexSteps steps_of(const Tensor& self, std::span<const TensorIndex> indices) {
  int64_t used = 0;
  for (const TensorIndex& i : indices) used += dims_used(i);
  if (used > self.dim()) too_many_indices(self, used);
  int64_t hidden = self.dim() - used;  // dimensions that `...` stands for
  IndexSteps steps(self);
  for (const TensorIndex& index : indices) {
    std::visit(Cases{[&](std::nullopt_t) { steps.new_axis(); },
                     // A second `...` stands for nothing.
                     [&](EllipsisIndexType) { steps.keep(std::exchange(hidden, 0)); },
                     [&](int64_t i) { steps.select(i); }, [&](bool v) { steps.truth(v); },
                     [&](const Slice& s) { steps.slice(range_of(s, steps.next_size())); },
                     [&](const Tensor& t) { steps.tensor(t); }},
               index.item());
  }
  return steps;
}

}  // namespace

Tensor get(const Tensor& self, std::span<const TensorIndex> indices) {
  return indexed(steps_of(self, indices));
}

void put(const Tensor& self, std::span<const TensorIndex> indices, const Tensor& value) {
  const IndexSteps steps = steps_of(self, indices);
  value.is_wrapped_number() ? assign(steps, value.item()) : assign(steps, value);
}

}  // namespace rush::indexing
