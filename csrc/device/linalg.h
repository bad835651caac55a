// linalg.h: products of matrices and their factors, on a device.
#pragma once

#include <string_view>

#include "device/table.h"

namespace rush {

// - Operands are of one dtype: float16, bfloat16, float32, float64, complex64, complex128, uint8,
//   int8, int16, int32 or int64. bool raises, as PyTorch does.
// - Any strides. `out` has the shape of the result and overlaps neither input.
// - beta == 0 means that out's old content is not read: NaN in it does not matter.
// - Half types add up in float32, integers wrap around as C++'s unsigned ones do.
// - Conjugation is the caller's business.
struct ProductLoops {
  // out = beta * out + alpha * a @ b.
  // 2-D: a is (m, k), b is (k, n), out is (m, n).
  // 3-D: all three have the same leading batch size; expand a shared operand (batch stride 0).
  void (*gemm)(const Tensor& a, const Tensor& b, const Tensor& out, const Scalar& alpha,
               const Scalar& beta) = nullptr;
  // out = beta * out + alpha * a @ x. a is (m, k), x is (k), out is (m).
  void (*gemv)(const Tensor& a, const Tensor& x, const Tensor& out, const Scalar& alpha,
               const Scalar& beta) = nullptr;
  // out = sum of a[i] * b[i]. a and b are (k), out is 0-d.
  void (*dot)(const Tensor& a, const Tensor& b, const Tensor& out) = nullptr;
  // out = x @ w.T + bias for x (n, k), w (m, k), bias (m), and relu of that where it is asked for,
  // in one launch; false: not done, take another way. Null: the device has none. Of float32, relu gives
  // the bits that the op behind it would; a half type may have another zero for what rounds to it.
  bool (*linear)(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& out,
                 bool relu) = nullptr;
  // out += a @ b where a (m, k) and b (k, n) are of a half type; out is float32 and contiguous.
  void (*add_wide)(const Tensor& a, const Tensor& b, const Tensor& out) = nullptr;
};
extern DeviceTable<ProductLoops> product_loops;

// Batches of matrices of float32, float64, complex64 or complex128. Inputs satisfy is_matrix_batch
// (core/matrix_shape.h) and hold at least one element where nothing else is said; outputs are
// contiguous, or lie by columns where it says so. Pivots and `info` are int32, as LAPACK has them.
// What is null is composed of the others.
struct MatrixLoops {
  // out is zero in the other triangle.
  void (*cholesky)(const char* op, const Tensor& a, bool upper, const Tensor& out,
                   const Tensor& info) = nullptr;
  // b becomes x with a x = b.
  void (*solve_triangular)(const char* op, const Tensor& a, bool upper, bool unit,
                           const Tensor& b) = nullptr;

  // lu lies by columns.
  void (*lu_factor)(const char* op, const Tensor& a, bool pivot, const Tensor& lu,
                    const Tensor& pivots, const Tensor& info) = nullptr;
  // lu and x lie by columns.
  void (*lu_solve)(const char* op, const Tensor& lu, const Tensor& pivots, const Tensor& b,
                   bool adjoint, const Tensor& x) = nullptr;
  // Where rows went that were exchanged one after the other; pivots count from 1. A pivot outside
  // raises, perhaps later.
  void (*permutation)(const char* op, const Tensor& pivots, int64_t rows,
                      const Tensor& out) = nullptr;
  // The next four are made of LU factors. Any of them takes matrices without elements.
  void (*solve)(const char* op, const Tensor& a, const Tensor& b, const Tensor& x, const Tensor& lu,
                const Tensor& pivots, const Tensor& info) = nullptr;
  void (*inverse)(const char* op, const Tensor& a, const Tensor& out,
                  const Tensor& info) = nullptr;  // out lies by columns
  void (*det)(const char* op, const Tensor& a, const Tensor& det, const Tensor& lu,
              const Tensor& pivots) = nullptr;
  void (*slogdet)(const char* op, const Tensor& a, const Tensor& sign, const Tensor& logabs,
                  const Tensor& lu, const Tensor& pivots) = nullptr;

  // Of symmetric or Hermitian matrices; ld and x lie by columns. The lower triangle is read.
  void (*ldl_factor)(const char* op, const Tensor& a, bool hermitian, const Tensor& ld,
                     const Tensor& pivots, const Tensor& info) = nullptr;
  void (*ldl_solve)(const char* op, const Tensor& ld, const Tensor& pivots, const Tensor& b,
                    bool hermitian, const Tensor& x) = nullptr;
  bool ldl_takes_hermitian = false;  // of complex numbers

  // out, by columns, holds R and the reflections below it.
  void (*geqrf)(const char* op, const Tensor& a, const Tensor& out, const Tensor& tau) = nullptr;
  // out, by columns: the first columns of the product of reflections.
  void (*orgqr)(const char* op, const Tensor& a, const Tensor& tau, const Tensor& out) = nullptr;
  // out, by columns: Q c, Q^H c, c Q or c Q^H.
  void (*ormqr)(const char* op, const Tensor& a, const Tensor& tau, const Tensor& c, bool left,
                bool transpose, const Tensor& out) = nullptr;
  // q (m, m or min(m, n)) and r (its columns, n) lie by columns; q may be undefined. Any sizes.
  void (*qr)(const char* op, const Tensor& a, const Tensor& q, const Tensor& r) = nullptr;
  // x (max(m, n) rows, by columns) is read as the right-hand side and becomes the solution;
  // singular is empty for drivers that find no singular values. Any sizes.
  void (*least_squares)(const char* op, const Tensor& a, const Tensor& x, double rcond,
                        std::string_view driver, const Tensor& rank, const Tensor& singular,
                        const Tensor& info) = nullptr;

  // Do the next three look for inf and nan (info is -1 there), and take matrices without elements?
  // Else none come.
  bool spectral_takes_any = false;
  // u and vh lie by columns and may be undefined, or both full, or both thin.
  void (*svd)(const char* op, const Tensor& a, std::string_view driver, const Tensor& u,
              const Tensor& s, const Tensor& vh, const Tensor& info) = nullptr;
  // Of a one triangle is read. v, by columns, may be undefined.
  void (*eigh)(const char* op, const Tensor& a, bool upper, const Tensor& values, const Tensor& v,
               const Tensor& info) = nullptr;
  // values and v are complex; v, by columns, may be undefined.
  void (*eig)(const char* op, const Tensor& a, const Tensor& values, const Tensor& v,
              const Tensor& info) = nullptr;
  // The same, as libraries have it. a, by columns, is lost. v has a's dtype: of a real matrix's two
  // conjugate vectors the first column holds the real parts, the second the imaginary ones (values
  // come in that order). False: the library cannot.
  bool (*eig_in_pairs)(const char* op, const Tensor& a, const Tensor& values, const Tensor& v,
                       const Tensor& info) = nullptr;
};
extern DeviceTable<MatrixLoops> matrix_loops;

}  // namespace rush
