// matmul.h: checks that the matrix products share.
#pragma once

#include "ops/framework/op.h"

namespace rush {

// Both of one dtype that has products; the shared device.
void check_product(const char* op, const Tensor& a, const Tensor& b);

}  // namespace rush
