// functional.h: what modules compute, as functions: F::cross_entropy(x, t), F::dropout(x, ...).
#pragma once

#include "frontend/losses.h"
#include "frontend/nn/activation.h"
#include "frontend/nn/loss.h"
#include "frontend/nn/pooling.h"
#include "ops/ops.h"

namespace rush::nn::functional {

using rush::conv1d;
using rush::conv2d;
using rush::conv3d;
using rush::elu;
using rush::embedding;
using rush::gelu;
using rush::layer_norm;
using rush::leaky_relu;
using rush::linear;
using rush::log_softmax;
using rush::relu;
using rush::scaled_dot_product_attention;
using rush::silu;
using rush::softmax;
using rush::softplus;

struct DropoutFuncOptions {
  RUSH_ARG(double, p) = 0.5;
  RUSH_ARG(bool, training) = true;
};
inline Tensor dropout(const Tensor& input, const DropoutFuncOptions& o = {}) {
  return rush::dropout(input, o.p(), o.training());
}

using MaxPool1dFuncOptions = MaxPool1dOptions;
using MaxPool2dFuncOptions = MaxPool2dOptions;
using MaxPool3dFuncOptions = MaxPool3dOptions;
using AvgPool2dFuncOptions = AvgPool2dOptions;
inline Tensor max_pool1d(const Tensor& input, const MaxPool1dOptions& o) {
  return pooled(input, o);
}
inline Tensor max_pool2d(const Tensor& input, const MaxPool2dOptions& o) {
  return pooled(input, o);
}
inline Tensor max_pool3d(const Tensor& input, const MaxPool3dOptions& o) {
  return pooled(input, o);
}
inline Tensor avg_pool1d(const Tensor& input, const AvgPool1dOptions& o) {
  return pooled(input, o);
}
inline Tensor avg_pool2d(const Tensor& input, const AvgPool2dOptions& o) {
  return pooled(input, o);
}
inline Tensor avg_pool3d(const Tensor& input, const AvgPool3dOptions& o) {
  return pooled(input, o);
}

#define RUSH_LOSS_FUNCTION(function, Name)                                                         \
  using Name##FuncOptions = Name##Options;                                                         \
  inline Tensor function(const Tensor& input, const Tensor& target, const Name##Options& o = {}) { \
    return Name(o)(input, target);                                                                 \
  }
RUSH_LOSS_FUNCTION(mse_loss, MSELoss)
RUSH_LOSS_FUNCTION(l1_loss, L1Loss)
RUSH_LOSS_FUNCTION(smooth_l1_loss, SmoothL1Loss)
RUSH_LOSS_FUNCTION(huber_loss, HuberLoss)
RUSH_LOSS_FUNCTION(kl_div, KLDivLoss)
RUSH_LOSS_FUNCTION(nll_loss, NLLLoss)
RUSH_LOSS_FUNCTION(cross_entropy, CrossEntropyLoss)
RUSH_LOSS_FUNCTION(binary_cross_entropy, BCELoss)
RUSH_LOSS_FUNCTION(binary_cross_entropy_with_logits, BCEWithLogitsLoss)
#undef RUSH_LOSS_FUNCTION

}  // namespace rush::nn::functional
