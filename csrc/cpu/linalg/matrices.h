// matrices.h: a batch of matrices inside a tensor, by pointers and strides.
#pragma once

#include <algorithm>

#include "core/matrix_shape.h"
#include "core/threads.h"
#include "cpu/linalg/product.h"

namespace rush {

// Of a tensor that satisfies is_matrix_batch: the last two dims are the matrices'; the others lie
// end to end, one matrix after the other (or, with a step of 0, are all the same one).
template <class T>
struct Matrices {
  T* data;
  int64_t count, step, rows, cols, row, col;

  explicit Matrices(const Tensor& t)
      : data(t.data<T>()),
        count(1),
        step(t.size(-1) * t.size(-2)),
        rows(t.size(-2)),
        cols(t.size(-1)),
        row(t.stride(-2)),
        col(t.stride(-1)) {
    for (int64_t d = 0; d + 2 < t.dim(); ++d) count *= t.sizes()[size_t(d)];
  }
  Matrix<T> operator[](int64_t i) const { return {data + i * step, row, col}; }
  bool by_columns() const { return row == 1 && (col == rows || cols <= 1); }
  bool by_rows() const { return col == 1 && (row == cols || rows <= 1); }
};

template <class T, class U>
void copy_matrix(const Matrix<T>& from, const Matrix<U>& to, int64_t rows, int64_t cols) {
  if (to.row == 1) {
    for (int64_t j = 0; j < cols; ++j)
      for (int64_t i = 0; i < rows; ++i) *to.at(i, j) = *from.at(i, j);
  } else {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j) *to.at(i, j) = *from.at(i, j);
  }
}

template <class T>
bool is_finite_matrix(const Matrix<T>& a, int64_t rows, int64_t cols) {
  // x - x is 0 for finite numbers and nan for all others
  bool finite = true;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      const auto x = *a.at(i, j);
      if constexpr (is_complex_v<std::remove_const_t<T>>)
        finite &= x.re - x.re == 0 && x.im - x.im == 0;
      else
        finite &= x - x == 0;
    }
  return finite;
}

// Runs f(begin, end) over the matrices of a batch, each of about `work` multiplications.
template <class F>
void for_matrices(int64_t count, int64_t work, F&& f) {
  parallel_for(count, std::max<int64_t>(1, 20000 / std::max<int64_t>(1, work)), f);
}

}  // namespace rush
