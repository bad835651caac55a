// uses.h: which of the tensors that a pass goes over share memory.
#pragma once

#include "ops/framework/value.h"

namespace rush {

// Does it fill a stretch of memory without gaps, in whatever order of dims?
bool is_flat(const Tensor& t);

// Raises when memory that is written is also read or written through another tensor. The same
// parameter twice is allowed, for PyTorch allows it: true then, and the steps must come in turn.
bool check_uses(const char* op, TensorList params, TensorList grads, TensorList states);

// Is memory of flat tensors that is written also read or written through another one?
bool share_memory(TensorList written, TensorList read);

}  // namespace rush
