// spectral.h: singular values, eigenvalues and least squares over batches of matrices.
//
// As in factor.h. Where vectors are undefined only the values are computed. info is 0 where all
// went well, -1 where the matrix holds inf or nan, else what LAPACK says.
#pragma once

#include <string_view>

#include "core/tensor.h"

namespace rush {

// u and vh lie by columns: (m, m) and (n, n), or of min(m, n) columns and rows.
void svd_cpu(const char* op, const Tensor& a, std::string_view driver, const Tensor& u,
             const Tensor& s, const Tensor& vh, const Tensor& info);
// v lies by columns.
void eigh_cpu(const char* op, const Tensor& a, bool upper, const Tensor& values, const Tensor& v,
              const Tensor& info);
// values and v are complex; v lies by columns.
void eig_cpu(const char* op, const Tensor& a, const Tensor& values, const Tensor& v,
             const Tensor& info);
// x (max(m, n) rows, by columns) is read as the right-hand side and becomes the solution; singular
// is empty for drivers that find no singular values.
void least_squares_cpu(const char* op, const Tensor& a, const Tensor& x, double rcond,
                       std::string_view driver, const Tensor& rank, const Tensor& singular,
                       const Tensor& info);

}  // namespace rush
