// factorizations.h: batches of matrices factored by elimination and reflections: Cholesky, LU, QR,
// LDL, and the systems they solve. The spectral ones are in spectral.h.
//
// All tensors are on the CPU and of one dtype (float32, float64, complex64, complex128). Inputs
// satisfy is_matrix_batch; outputs are contiguous, or lie column by column where it says so. `info`
// and pivots are int32, as LAPACK has them.
#pragma once

#include "core/tensor.h"

namespace rush {

// out is contiguous, and zero in the other triangle.
void cholesky_cpu(const char* op, const Tensor& a, bool upper, const Tensor& out,
                  const Tensor& info);
// b is contiguous and becomes x with a x = b.
void solve_triangular_cpu(const char* op, const Tensor& a, bool upper, bool unit, const Tensor& b);

// lu lies by columns.
void lu_factor_cpu(const char* op, const Tensor& a, bool pivot, const Tensor& lu,
                   const Tensor& pivots, const Tensor& info);
// lu and x lie by columns.
void lu_solve_cpu(const char* op, const Tensor& lu, const Tensor& pivots, const Tensor& b,
                  bool adjoint, const Tensor& x);
// Both of these at once.
void solve_cpu(const char* op, const Tensor& a, const Tensor& b, const Tensor& x, const Tensor& lu,
               const Tensor& pivots, const Tensor& info);
// out lies by columns.
void inverse_cpu(const char* op, const Tensor& a, const Tensor& out, const Tensor& info);

// q (m, m or min(m, n)) and r (its columns, n) lie by columns; q may be undefined.
void qr_cpu(const char* op, const Tensor& a, const Tensor& q, const Tensor& r);
// out, by columns, holds R and the reflections below it.
void geqrf_cpu(const char* op, const Tensor& a, const Tensor& out, const Tensor& tau);
// out, by columns: the first columns of the product of reflections.
void orgqr_cpu(const char* op, const Tensor& a, const Tensor& tau, const Tensor& out);
// out, by columns: Q c, Q^H c, c Q or c Q^H.
void ormqr_cpu(const char* op, const Tensor& a, const Tensor& tau, const Tensor& c, bool left,
               bool transpose, const Tensor& out);

// ld lies by columns. x becomes the solution, by columns.
void ldl_factor_cpu(const char* op, const Tensor& a, bool hermitian, const Tensor& ld,
                    const Tensor& pivots, const Tensor& info);
void ldl_solve_cpu(const char* op, const Tensor& ld, const Tensor& pivots, const Tensor& b,
                   bool hermitian, const Tensor& x);

}  // namespace rush
