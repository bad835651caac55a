// triangle.h: the part of a matrix on one side of a diagonal.
#pragma once

#include "core/tensor.h"

namespace rush {

// out = x where column - row <= diagonal (lower) or >= diagonal (upper), else zero; over the last
// two dims. Out may be x itself.
void triangle_cpu(const Tensor& x, int64_t diagonal, bool upper, const Tensor& out);

}  // namespace rush
