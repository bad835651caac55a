// onednn_matmul.h: products by oneDNN. The build picks onednn/matmul.cpp or no_onednn/matmul.cpp,
// whose functions all answer false.
#pragma once

#include <optional>

#include "core/cpu_features.h"
#include "cpu/linalg/product.h"

namespace rush::onednn {

// Is there a oneDNN, and is it wanted? Opens it when first called.
bool available();
RUSH_API void set_wanted(bool on);
RUSH_API bool wanted();

// The instructions that oneDNN may use, chosen when it was opened; none while it is not.
RUSH_API std::optional<IsaLevel> opened_level();

// Runs the product on rush::num_threads() threads, on one inside a parallel region. The operands
// suit BLAS (see suits_blas) and c.col == 1. False: not done, take another way.
bool gemm(const Product<float>& p);

// Has this processor bfloat16 products (AVX-512-BF16, or AMX that works)?
bool has_bfloat16();

// c = a @ b with sums in float32, rounded once when c is bfloat16. Strides as above. False: not
// done.
bool gemm(int64_t m, int64_t n, int64_t k, Matrix<const bfloat16> a, Matrix<const bfloat16> b,
          Matrix<bfloat16> c);
bool gemm(int64_t m, int64_t n, int64_t k, Matrix<const bfloat16> a, Matrix<const bfloat16> b,
          Matrix<float> c);

}  // namespace rush::onednn
