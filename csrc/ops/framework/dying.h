// dying.h: the memory of what nobody needs any more serves for what is computed from it: a gradient
// for the next one, a saved tensor for its gradient.
#pragma once

#include "core/tensor.h"

namespace rush {

// g * factor where a formula uses g for the last time: in g's own memory when nobody else holds it
// and no graph of the product is wanted. Saves a pass over fresh memory, and its peak.
Tensor multiply_last(const Tensor& g, const Tensor& factor);

// May a formula of backward write over x, which its node saved and hands to it, as it reads x for
// the last time? Only where the pass lets go of what was saved, and nobody but the node sees the
// memory: neither the program, nor another node, nor a function that packed it.
bool may_overwrite_saved(const Tensor& x);
// For what was written over x: its memory, as a tensor that x's versions and node know nothing of.
Tensor in_memory_of(const Tensor& x);

}  // namespace rush
