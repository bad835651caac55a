// rushlight.h: all that C++ programs need: tensors and their ops, gradients, modules, optimisers,
// data loaders, files, and programs that were traced in Python. docs/cpp.md is the guide.
#pragma once

// Before everything that knows a tensor: see Note [Methods of tensors] in frontend/tensor.h.
#include "frontend/forward_declarations.h"
#define RUSH_TENSOR_METHODS "frontend/tensor_members.inc"

#include "autograd/meta.h"
#include "core/modes.h"
#include "core/version.h"
#include "frontend/autograd.h"
#include "frontend/cuda.h"
#include "frontend/data/data_loader.h"
#include "frontend/from_data.h"
#include "frontend/nn/nn.h"
#include "frontend/optim.h"
#include "frontend/random.h"
#include "frontend/serialize.h"
#include "frontend/tensor.h"
#include "frontend/torch/macros.h"
#include "frontend/version_macros.h"
#include "jit/program.h"
#include "ops/framework/operators.h"
#include "ops/ops.h"

namespace rush {
// The values as one text, as a stream would write them.
template <class... Values>
std::string str(const Values&... values) {
  return concat(values...);
}
}  // namespace rush
