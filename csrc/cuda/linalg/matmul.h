// matmul.h: products for other files of this folder.
#pragma once

#include "core/tensor.h"

namespace rush::cuda {

// out (+)= a @ b: matrices of a floating type, or batches of them; with or without TF32,
// whatever the setting for products says.
void multiply_matrices(const Tensor& a, const Tensor& b, const Tensor& out, bool add, bool tf32);

}  // namespace rush::cuda
