// gemm.h: matrix products on the CPU, as device/linalg.h describes them. The one door to BLAS,
// oneDNN and our own kernels.
//
// - A transposed, sliced or expanded view is not copied where the routine that runs can take it;
//   otherwise it is packed into scratch memory.
// - Safe in a forked child and inside parallel_for: there it runs on one thread.
#pragma once

#include "core/export.h"
#include "core/scalar.h"
#include "core/tensor.h"

namespace rush {

RUSH_API void gemm_cpu(const Tensor& a, const Tensor& b, const Tensor& out, const Scalar& alpha = 1,
                       const Scalar& beta = 0);
RUSH_API void gemv_cpu(const Tensor& a, const Tensor& x, const Tensor& out, const Scalar& alpha = 1,
                       const Scalar& beta = 0);
RUSH_API void dot_cpu(const Tensor& a, const Tensor& b, const Tensor& out);

}  // namespace rush
