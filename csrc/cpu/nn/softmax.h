// softmax.h: softmax along the last dim, and cross entropy. float32 or float64.
#pragma once

#include "core/tensor.h"

namespace rush {

// Contiguous tensors with rows of n elements.
void softmax_cpu(const Tensor& x, int64_t n, bool logarithm, const Tensor& y);
void softmax_backward_cpu(const Tensor& g, const Tensor& y, int64_t n, bool logarithm,
                          const Tensor& gx);

// Scores (batch, classes, points), class indices (batch, points), all contiguous.
struct CrossEntropy {
  int64_t batch, classes, points;
  const int64_t* target;
  const void* weight;  // one number a class of the scores' type, or null
  int64_t ignore_index;
  double smoothing;
};
// The loss of each position, the log of its sum of exponentials (where `total` is defined; else the
// scores are log-probabilities already), and the sum of the weights. Raises on a target that is
// out of range.
double cross_entropy_cpu(const char* op, const CrossEntropy& c, const Tensor& x, const Tensor& loss,
                         const Tensor& total);
double sum_of_losses_cpu(const Tensor& loss);
// gx for the gradient of each position's loss, g[i * step] * scale.
void cross_entropy_backward_cpu(const CrossEntropy& c, const Tensor& x, const Tensor& total,
                                const Tensor& g, int64_t step, double scale, const Tensor& gx);

}  // namespace rush
