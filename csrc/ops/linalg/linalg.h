// linalg.h: what the blocks of linear algebra share.
#pragma once

#include <exception>

#include "core/matrix_shape.h"
#include "device/linalg.h"
#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/framework/operators.h"

namespace rush {

// Matrices of a type that LAPACK has. Raises otherwise.
void check_matrices(const char* op, const Tensor& a, const char* argument = "A");
void check_square_matrices(const char* op, const Tensor& a, const char* argument = "A");
// Equal dtypes, and equal sizes but for the last.
void check_same_batch(const char* op, const Tensor& a, const Tensor& b, int64_t matrix_dims);

// The result of a factorisation: matrices that lie by columns, or a vector or number a matrix.
inline Spec by_columns(const Tensor& a, int64_t rows, int64_t cols, DType dtype) {
  Dims sizes = with_matrix(batch_of(a), rows, cols);
  Dims strides = by_column_strides(sizes);
  return {sizes, dtype, a.device(), strides};
}
inline Spec by_columns(const Tensor& a, int64_t rows, int64_t cols) {
  return by_columns(a, rows, cols, a.dtype());
}
inline Spec a_vector(const Tensor& a, int64_t n, DType dtype) {
  Dims sizes = batch_of(a);
  sizes.push_back(n);
  return {sizes, dtype, a.device()};
}
inline Spec a_number(const Tensor& a, DType dtype) { return {batch_of(a), dtype, a.device()}; }

// The tensor itself where the loops can read it, else a copy that they can.
Tensor readable_matrices(const Tensor& a);
// An output that lies by columns, whatever the one it stands for does (host copies of a GPU's
// tensors are contiguous). Written back at the end of the scope, unless an exception ends it.
class ByColumns {
 public:
  explicit ByColumns(const Tensor& out) : out_(out), own_(out) {
    const Dims strides = by_column_strides(out.sizes());
    if (!std::equal(strides.begin(), strides.end(), out.strides().begin()))
      own_ = make_tensor(out.sizes(), strides, out.dtype(), out.device());
  }
  ~ByColumns() noexcept(false) {
    if (!own_.is_same(out_) && std::uncaught_exceptions() == exceptions_) copy_data(out_, own_);
  }
  ByColumns(const ByColumns&) = delete;
  ByColumns& operator=(const ByColumns&) = delete;
  operator const Tensor&() const { return own_; }

 private:
  const Tensor& out_;
  Tensor own_;
  const int exceptions_ = std::uncaught_exceptions();
};

// Matrices with zeros in place of those that hold inf or nan, for functions that would not end
// well; `bad` says which, as -1 or 0.
struct FiniteMatrices {
  Tensor a, bad;
  explicit FiniteMatrices(const Tensor& a);
};

inline Tensor mH(const Tensor& t) { return adjoint(t); }
inline Tensor mT(const Tensor& t) { return transpose(t, -2, -1); }
inline Tensor main_diagonal(const Tensor& t) { return diagonal(t, 0, -2, -1); }
inline Tensor as_diagonal(const Tensor& t) { return diag_embed(t, 0, -2, -1); }
inline Tensor as_row(const Tensor& t) { return unsqueeze(t, -2); }
inline Tensor as_column(const Tensor& t) { return unsqueeze(t, -1); }
inline Tensor columns(const Tensor& t, int64_t from, int64_t to) { return slice(t, -1, from, to); }
inline Tensor rows(const Tensor& t, int64_t from, int64_t to) { return slice(t, -2, from, to); }
// X with X A = B, A triangular.
inline Tensor solve_from_right(const Tensor& A, const Tensor& B, bool upper, bool unit = false) {
  return mT(_solve_triangular(mT(A), mT(B), !upper, unit));
}
// An imaginary number times a real tensor.
inline Tensor times_i(const Tensor& real_part_is_zero) {
  return make_complex(mul(real_part_is_zero, wrap_number(0)), real_part_is_zero);
}

}  // namespace rush
