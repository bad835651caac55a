#include "core/matrix_shape.h"

#include <algorithm>

namespace rush {

Dims batch_of(const Tensor& t, int64_t drop) {
  Dims batch;
  for (int64_t d = 0; d + drop < t.dim(); ++d) batch.push_back(t.sizes()[size_t(d)]);
  return batch;
}

Dims with_matrix(Dims batch, int64_t rows, int64_t cols) {
  batch.push_back(rows);
  batch.push_back(cols);
  return batch;
}

Dims by_column_strides(const Dims& sizes) {
  Dims strides(uint32_t(sizes.size()), 1);
  const size_t n = sizes.size();
  strides[n - 1] = std::max<int64_t>(1, sizes[n - 2]);
  int64_t step = std::max<int64_t>(1, sizes[n - 2]) * std::max<int64_t>(1, sizes[n - 1]);
  for (size_t d = n - 2; d-- > 0;) {
    strides[d] = step;
    step *= std::max<int64_t>(1, sizes[d]);
  }
  return strides;
}

bool is_matrix_batch(const Tensor& t) {
  if (t.is_contiguous()) return true;
  const int64_t rows = t.size(-2), cols = t.size(-1);
  if (!lies_by_columns(t) && !lies_by_rows(t)) return false;
  int64_t step = rows * cols;
  for (int64_t d = t.dim() - 3; d >= 0; --d) {
    if (t.size(d) != 1 && t.stride(d) != step) return false;
    step *= t.size(d);
  }
  return true;
}

}  // namespace rush
