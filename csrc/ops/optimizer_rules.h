// optimizer_rules.h: what an optimiser's numbers become for one parameter at one step.
#pragma once

#include <string_view>

#include "cpu/kernels/optimizer_tables.h"

namespace rush {

inline constexpr int kMaxOptimizerScalars = 3;

struct OptimizerRuleInfo {
  const char* name;    // "adam"; the rule of class Adam
  const char* writer;  // who wrote last, for messages about changed tensors
  int options;         // how many numbers a group has, in the order of the comments in the .cpp
  int scalars;         // 0-d states of each parameter: the step count first
  OptimizerRule (*kernel)(const double* options);
  // From the group's options and the parameter's scalars, which move on by one step, to the fields
  // of the functor. `single`: the scalars are float32, as the arithmetic on them must be.
  void (*prepare)(const double* options, double* scalars, bool single, double* numbers);
};

const OptimizerRuleInfo& optimizer_rule(std::string_view name);

}  // namespace rush
