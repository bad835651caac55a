// optim.h: an optimiser's step on a device, in one pass over all parameters.
#pragma once

#include <span>

#include "device/table.h"
#include "functors/optimizer.h"
#include "functors/optimizer_numbers.h"

namespace rush {

// One parameter with its gradient and states, all flat and of one real type.
struct OptimizerTensor {
  char* ptrs[2 + kMaxOptimizerStates];
  int64_t numel;
  DType dtype;
  double numbers[kMaxOptimizerNumbers];
  char* scalars[kMaxOptimizerScalars];  // only with an OptimizerFormula
};

// A step whose numbers the device works out by itself: the parameters' scalars are there, and
// options may be.
struct OptimizerFormula {
  OptimizerNumbers numbers;
  int scalars;
  bool wide;  // the scalars are float64, else float32
  double options[kMaxOptimizerOptions];
  const double* places[kMaxOptimizerOptions];  // on the device; null: the option is the number
};

struct OptimLoops {
  // float16 and bfloat16 are computed in float. With a formula, the tensors' numbers are not there
  // yet.
  void (*step)(OptimizerRule, std::span<const OptimizerTensor> tensors,
               const OptimizerFormula* formula, Device device) = nullptr;
  bool takes_formula = false;
};
extern DeviceTable<OptimLoops> optim_loops;

}  // namespace rush
