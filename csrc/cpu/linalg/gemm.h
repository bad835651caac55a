// gemm.h: matrix products on the CPU. The one door to BLAS, oneDNN and our own kernels.
//
// - All operands are CPU tensors of one dtype: float16, bfloat16, float32, float64, complex64,
//   complex128, uint8, int8, int16, int32 or int64. bool raises, as PyTorch does.
// - Any strides. A transposed, sliced or expanded view is not copied where the routine that runs
//   can take it; otherwise it is packed into scratch memory.
// - `out` has the shape of the result and overlaps neither input.
// - beta == 0 means that out's old content is not read: NaN in it does not matter.
// - Half types add up in float32, integers wrap around as C++'s unsigned ones do.
// - Conjugation is the caller's business.
// - Safe in a forked child and inside parallel_for: there it runs on one thread.
#pragma once

#include "core/export.h"
#include "core/scalar.h"
#include "core/tensor.h"

namespace rush {

// out = beta * out + alpha * a @ b.
// 2-D: a is (m, k), b is (k, n), out is (m, n).
// 3-D: all three have the same leading batch size; expand a shared operand (batch stride 0).
RUSH_API void gemm(const Tensor& a, const Tensor& b, const Tensor& out, const Scalar& alpha = 1,
                   const Scalar& beta = 0);

// out = beta * out + alpha * a @ x. a is (m, k), x is (k), out is (m).
RUSH_API void gemv(const Tensor& a, const Tensor& x, const Tensor& out, const Scalar& alpha = 1,
                   const Scalar& beta = 0);

// out = sum of a[i] * b[i]. a and b are (k), out is 0-d.
RUSH_API void dot(const Tensor& a, const Tensor& b, const Tensor& out);

}  // namespace rush
