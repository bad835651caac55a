// order.h: what the GPU's sorting and selecting share. Rows are the last dim; all is contiguous.
#pragma once

#include "core/tensor.h"

namespace rush::cuda {

struct Rows {
  int64_t count, length;
  explicit Rows(const Tensor& x) : count(1), length(x.dim() == 0 ? 1 : x.sizes().back()) {
    for (int64_t d = 0; d + 1 < x.dim(); ++d) count *= x.sizes()[size_t(d)];
  }
};

// Of each row, sorted, the first `kept`. Stable; either output may be undefined.
void sort_rows(const Tensor& x, bool descending, int64_t kept, const Tensor& values,
               const Tensor& indices);

}  // namespace rush::cuda
