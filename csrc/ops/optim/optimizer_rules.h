// optimizer_rules.h: what an optimiser's numbers become for one parameter at one step.
#pragma once

#include <span>
#include <string_view>

#include "device/optim.h"
#include "ops/framework/value.h"

namespace rush {

struct OptimizerRuleInfo {
  const char* name;          // "adam"; the rule of class Adam
  const char* writer;        // who wrote last, for messages about changed tensors
  int options;               // how many numbers a group has, in the order of the rule's numbers
  int scalars;               // 0-d states of each parameter: the step count first
  OptimizerNumbers numbers;  // the formula below, as the device knows it
  OptimizerRule (*kernel)(const double* options);
  // See functors/optimizer_numbers.h.
  void (*prepare)(const double* options, double* scalars, bool single, double* numbers);
};

const OptimizerRuleInfo& optimizer_rule(std::string_view name);

// An option that a tensor on the parameters' device holds, so that nobody need wait for it.
struct OptimizerOption {
  int place;
  Tensor value;  // one element, float64
};
// optimizer_step with such options; their places in `options` are not read.
RUSH_API int64_t optimizer_step_with(std::string_view rule, TensorList params, TensorList grads,
                                     TensorList scalars, TensorList states,
                                     std::span<const double> options,
                                     std::span<const OptimizerOption> on_device);

}  // namespace rush
