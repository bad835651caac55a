// dying.h: the memory of a gradient that nobody needs any more serves for the one computed from it.
#pragma once

#include "core/tensor.h"

namespace rush {

// g * factor where a formula uses g for the last time: in g's own memory when nobody else holds it
// and no graph of the product is wanted. Saves a pass over fresh memory, and its peak.
Tensor multiply_last(const Tensor& g, const Tensor& factor);

}  // namespace rush
