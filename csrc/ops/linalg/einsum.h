// einsum.h: sums of products in Einstein's notation.
#pragma once

#include <string_view>

#include "ops/framework/value.h"

namespace rush {

Tensor run_einsum(std::string_view equation, TensorList tensors);

}  // namespace rush
