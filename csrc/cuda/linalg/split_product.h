// split_product.h: products of float32 matrices by tensor cores, at float32's precision: Note [Split products] in
// kernels/split_product_hopper.cu.
#pragma once

#include "core/scalar.h"
#include "core/tensor.h"

namespace rush::cuda {

// out = beta * out + alpha * a @ b + bias, then relu, where that is faster than cuBLASLt's float32. False: it is
// something else, and nothing was done. Whether it is depends on sizes, layouts and the GPU alone.
bool multiply_split(const Tensor& a, const Tensor& b, const Tensor& out, const Scalar& alpha,
                    const Scalar& beta, const float* bias, bool relu);

}  // namespace rush::cuda
