// cross_entropy.h: what cross entropy of scores and that of a linear map's scores share.
#pragma once

#include "ops/framework/differentiated.h"

namespace rush {

enum Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

// How a loss is made of scores (batch, classes, points) and class indices (batch, points).
struct CrossEntropyRule {
  int64_t reduction, ignore_index;
  double smoothing;
  bool scores;  // or log-probabilities
};

// An op that makes the loss: weight and bias may be absent, a target may be out of range.
struct ComparesWithTargets {
  static constexpr bool takes_undefined = true;
  static constexpr bool may_fail = true;
  static constexpr bool any_device = true;
};

// The classes' weights as loops take them, in the type of computation; undefined where there are
// none.
Tensor weight_in(const Tensor& weight, DType dtype);
// The targets as loops take them. A 0-d target may come from the host.
Tensor labels_on(const Tensor& out, const Tensor& target);

// The gradients of scores and weight as a formula over ops, which can be differentiated itself;
// those that are not wanted are undefined.
std::pair<Tensor, Tensor> composed_cross_entropy_gradients(const Tensor& g, const Tensor& x,
                                                           const Tensor& target,
                                                           const Tensor& weight,
                                                           const CrossEntropyRule& rule,
                                                           bool wants_scores, bool wants_weight);

// Do target and weight go with `classes` classes, and targets of shape `expected` for an input of
// this one? Raises otherwise.
void check_targets_and_weight(const char* op, const Tensor& input, const Tensor& target,
                              const Dims& expected, const Tensor& weight, int64_t classes);

}  // namespace rush
