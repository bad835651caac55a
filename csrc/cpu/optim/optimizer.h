// optimizer.h: one pass over all parameters of an optimiser's step, and over lists of tensors.
#pragma once

#include <span>

#include "core/tensor.h"
#include "cpu/kernels/optimizer_tables.h"

namespace rush {

inline constexpr int kMaxOptimizerScalars = 3, kMaxOptimizerOptions = 8;

// One parameter with its gradient and states, all flat and of one real type.
struct OptimizerTensor {
  char* ptrs[2 + kMaxOptimizerStates];
  int64_t numel;
  DType dtype;
  double numbers[kMaxOptimizerNumbers];
  char* scalars[kMaxOptimizerScalars];  // only with an OptimizerFormula
};

// Whose formula of functors/optimizer_numbers.h makes numbers of options and scalars.
enum class OptimizerNumbers : uint8_t {
  Sgd,
  Adam,
  NAdam,
  RAdam,
  Adamax,
  Adagrad,
  Adadelta,
  RmsProp,
  Rprop,
  Asgd,
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

// How many states a rule keeps for each parameter.
RUSH_API int optimizer_states(OptimizerRule rule);
// The threads share out the elements of all tensors, so that neither many small ones nor a single
// large one leaves a thread idle. float16 and bfloat16 are computed in float.
RUSH_API void optimizer_step_cpu(OptimizerRule rule, std::span<const OptimizerTensor> tensors);

// A stretch of flat elements of one real type.
struct FlatTensor {
  char* data;
  int64_t numel;
  DType dtype;
};
// The p-norm of everything together; for p = inf and -inf the extreme magnitudes. In double.
RUSH_API double list_norm_cpu(std::span<const FlatTensor> tensors, double p);
RUSH_API void list_scale_cpu(std::span<const FlatTensor> tensors, double factor);
// Multiplies by the factor; false when an element is nan or infinite.
RUSH_API bool list_unscale_cpu(std::span<const FlatTensor> tensors, double factor);

}  // namespace rush
