// small_matrices_tables.h: factors of matrices that fit into the first-level cache, where a call of
// LAPACK costs more than the work; and of any real matrix where there is no LAPACK.
//
// Matrices lie row by row, each row `ld` elements apart; ld is a multiple of kRowStep, and the
// elements between the last column and ld may hold anything finite: whole vectors are worked on.
#pragma once

#include <cstdint>

#include "cpu/kernels/tables.h"

namespace rush {

inline constexpr int64_t kRowStep = 16;

template <class T>
struct SmallMatrixTable {
  // a (m, n) becomes L and U of P a, pivots[i] (from 1) the row that went to row i. Returns the
  // place (from 1) of the first zero on U's diagonal, or 0.
  int (*lu)(T* a, int64_t m, int64_t n, int64_t ld, int32_t* pivots, bool pivot, T* row);
  // a (n, n), of which the upper triangle is read, becomes U of a = U^T U. Returns the order of the
  // first minor that is not positive, or 0.
  int (*cholesky)(T* a, int64_t n, int64_t ld, T* row);
  // b (n rows of ldb) becomes a^-1 b; a by its strides.
  void (*solve)(const T* a, int64_t row_step, int64_t col_step, int64_t n, bool upper, bool unit,
                T* b, int64_t ldb);
  // a (m, n) becomes R and, below the diagonal, the reflections that made it.
  void (*qr)(T* a, int64_t m, int64_t n, int64_t ld, T* tau, T* row);
  // q (m, columns) becomes the first columns of the product of k reflections.
  void (*form_q)(const T* a, int64_t m, int64_t k, int64_t ld, const T* tau, T* q, int64_t columns,
                 int64_t ldq, T* row);
};

template <Isa isa, class T>
const SmallMatrixTable<T>* small_matrix_table();

}  // namespace rush
