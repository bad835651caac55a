// losses.h: losses and dropout as functions, with the names and defaults of PyTorch's C++ library and
// the bits of Python's nn.functional.
#pragma once

#include "core/tensor.h"

namespace rush {

enum class Reduction : int64_t { None, Mean, Sum };
inline constexpr Reduction kNone = Reduction::None, kMean = Reduction::Mean, kSum = Reduction::Sum;

RUSH_API Tensor nll_loss(const Tensor& input, const Tensor& target, const Tensor& weight = {},
                         Reduction reduction = kMean, int64_t ignore_index = -100);
RUSH_API Tensor cross_entropy_loss(const Tensor& input, const Tensor& target,
                                   const Tensor& weight = {}, Reduction reduction = kMean,
                                   int64_t ignore_index = -100, double label_smoothing = 0);
RUSH_API Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction = kMean);
RUSH_API Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction = kMean);
RUSH_API Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                               Reduction reduction = kMean, double beta = 1);
RUSH_API Tensor huber_loss(const Tensor& input, const Tensor& target, Reduction reduction = kMean,
                           double delta = 1);
RUSH_API Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                                     const Tensor& weight = {}, Reduction reduction = kMean);
RUSH_API Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                                 const Tensor& weight = {},
                                                 const Tensor& pos_weight = {},
                                                 Reduction reduction = kMean);
RUSH_API Tensor kl_div(const Tensor& input, const Tensor& target, Reduction reduction = kMean,
                       bool log_target = false);

RUSH_API Tensor dropout(const Tensor& input, double p, bool train);
// Of whole channels: the input is (N, C, ...).
RUSH_API Tensor feature_dropout(const Tensor& input, double p, bool train);

}  // namespace rush
