// matrix_shape.h: sizes and strides of tensors that hold a batch of matrices in their last two
// dims.
#pragma once

#include "core/tensor.h"

namespace rush {

// The sizes of a batch of matrices, with other matrices (or vectors) in it.
Dims batch_of(const Tensor& t, int64_t drop = 2);
Dims with_matrix(Dims batch, int64_t rows, int64_t cols);

// Strides of matrices that lie column by column, as LAPACK writes them.
Dims by_column_strides(const Dims& sizes);
// Do the matrices lie so, each by itself?
inline bool lies_by_columns(const Tensor& t) {
  return t.stride(-2) == 1 && (t.stride(-1) == t.size(-2) || t.size(-1) <= 1);
}
inline bool lies_by_rows(const Tensor& t) {
  return t.stride(-1) == 1 && (t.stride(-2) == t.size(-1) || t.size(-2) <= 1);
}
// Do they lie by rows or by columns, and one after the other?
bool is_matrix_batch(const Tensor& t);

}  // namespace rush
