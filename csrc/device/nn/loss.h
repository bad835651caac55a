// loss.h: losses on a device. Tensors are contiguous and of one dtype, results are overwritten. (The
// loss of cross_entropy, and its gradient, may be float32 where the scores are half types.)
#pragma once

#include "device/table.h"
#include "functors/loss.h"

namespace rush {

// Scores (batch, classes, points), class indices (batch, points), int64. See
// ops/nn/cross_entropy.cpp.
struct CrossEntropyCall {
  const Tensor& x;                // lies in any way
  const Tensor &target, &weight;  // weight: in the type of computation, or undefined
  int64_t reduction;              // 0 none, 1 mean, 2 sum
  int64_t ignore_index;
  double smoothing;
  bool scores;  // or log-probabilities
};

struct LossLoops {
  // Of input and target, element by element. `parameter`: see LossFn.
  void (*element)(LossFn, const Tensor& x, const Tensor& target, double parameter,
                  const Tensor& out) = nullptr;
  // One number: the sum, divided by `divisor`.
  void (*element_sum)(LossFn, const Tensor& x, const Tensor& target, double parameter,
                      double divisor, const Tensor& out) = nullptr;
  // gx = slope * g * scale; g has the shape of x, or one element.
  void (*element_backward)(LossFn, const Tensor& x, const Tensor& target, double parameter,
                           const Tensor& g, double scale, const Tensor& gx) = nullptr;
  // Do these three take float16 and bfloat16, too?
  bool element_takes_halves = false;

  // The loss; the log of each position's sum of exponentials (of scores only), in the type of
  // computation; the weights of the targets, added up, in float64. A target out of range raises,
  // perhaps later.
  void (*cross_entropy)(const CrossEntropyCall& call, const Tensor& loss, const Tensor& total,
                        const Tensor& weights) = nullptr;
  void (*cross_entropy_backward)(const CrossEntropyCall& call, const Tensor& g, const Tensor& total,
                                 const Tensor& weights, const Tensor& gx) = nullptr;
  // May gx lie as x does, in any order of dims? Else it is contiguous.
  bool cross_entropy_keeps_order = false;
};
inline constinit DeviceTable<LossLoops> loss_loops;

// Connectionist temporal classification (Graves et al., 2006): the probability of a sequence of
// labels, summed over all its alignments with the time steps. The labels of sample b are
// targets[first[b] .. first[b] + target[b]).
struct CtcLengths {
  IntList input, target;
  const int64_t* first;
  int64_t blank;
};

struct CtcLoops {
  // log_probs (time, batch, classes), float32 or float64, and targets, int64. Writes loss (batch)
  // and log_alpha (batch, time, 2 * longest target + 1). A label out of range raises, perhaps
  // later.
  void (*loss)(const Tensor& log_probs, const Tensor& targets, const CtcLengths& lengths,
               const Tensor& loss, const Tensor& log_alpha) = nullptr;
  // The gradient of each loss, as it passes through the log_softmax before it: probability minus
  // posterior. zero_infinity: zeros where the loss is infinite, instead of NaN.
  void (*backward)(const Tensor& log_probs, const Tensor& targets, const CtcLengths& lengths,
                   const Tensor& loss, const Tensor& log_alpha, bool zero_infinity,
                   const Tensor& gx) = nullptr;
};
inline constinit DeviceTable<CtcLoops> ctc_loops;

}  // namespace rush
