// exchange_data.h: other memory under the same tensor.
#pragma once

#include "core/tensor.h"

namespace rush {

// `to` gets the values, sizes, dtype and device of `from`; its graph, gradient and Python object stay.
// Both share memory from then on.
RUSH_API void exchange_data(const Tensor& to, const Tensor& from);

}  // namespace rush
