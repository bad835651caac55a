// optim.h: an optimiser's step on a device, in one pass over all parameters; norms and scales of
// lists of tensors.
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

// A stretch of flat elements of one real type.
struct FlatTensor {
  char* data;
  int64_t numel;
  DType dtype;
};

struct OptimLoops {
  // float16 and bfloat16 are computed in float. With a formula, the tensors' numbers are not there
  // yet.
  void (*step)(OptimizerRule, std::span<const OptimizerTensor> tensors,
               const OptimizerFormula* formula, Device device) = nullptr;
  bool takes_formula = false;

  // Over all elements of a list; null: tensor by tensor, by ops.
  // The p-norm of everything together; for p = inf and -inf the extreme magnitudes. In double.
  double (*list_norm)(std::span<const FlatTensor> tensors, double p) = nullptr;
  void (*list_scale)(std::span<const FlatTensor> tensors, double factor) = nullptr;
  // Multiplies by the factor; false when an element is nan or infinite.
  bool (*list_unscale)(std::span<const FlatTensor> tensors, double factor) = nullptr;
};
extern DeviceTable<OptimLoops> optim_loops;

}  // namespace rush
