// loss.h: losses as modules.
#pragma once

#include "frontend/arg.h"
#include "frontend/losses.h"
#include "frontend/nn/activation.h"

namespace rush::nn {

struct LossOptions {
  LossOptions(Reduction reduction = kMean) : reduction_(reduction) {}
  RUSH_ARG(Reduction, reduction);
};
using MSELossOptions = LossOptions;
using L1LossOptions = LossOptions;

struct BCELossOptions {
  RUSH_ARG(Tensor, weight);
  RUSH_ARG(Reduction, reduction) = kMean;
};
struct BCEWithLogitsLossOptions {
  RUSH_ARG(Tensor, weight);
  RUSH_ARG(Tensor, pos_weight);
  RUSH_ARG(Reduction, reduction) = kMean;
};
struct NLLLossOptions {
  RUSH_ARG(Tensor, weight);
  RUSH_ARG(int64_t, ignore_index) = -100;
  RUSH_ARG(Reduction, reduction) = kMean;
};
struct CrossEntropyLossOptions {
  RUSH_ARG(Tensor, weight);
  RUSH_ARG(int64_t, ignore_index) = -100;
  RUSH_ARG(Reduction, reduction) = kMean;
  RUSH_ARG(double, label_smoothing) = 0;
};
struct SmoothL1LossOptions {
  SmoothL1LossOptions(Reduction reduction = kMean) : reduction_(reduction) {}
  RUSH_ARG(Reduction, reduction);
  RUSH_ARG(double, beta) = 1;
};
struct HuberLossOptions {
  HuberLossOptions(Reduction reduction = kMean) : reduction_(reduction) {}
  RUSH_ARG(Reduction, reduction);
  RUSH_ARG(double, delta) = 1;
};
struct KLDivLossOptions {
  KLDivLossOptions(Reduction reduction = kMean) : reduction_(reduction) {}
  RUSH_ARG(Reduction, reduction);
  RUSH_ARG(bool, log_target) = false;
};

#define RUSH_LOSS(Name, ...)                                                                      \
  class Name##Impl : public WithOptions<Name##Impl, Name##Options> {                              \
   public:                                                                                        \
    using WithOptions<Name##Impl, Name##Options>::WithOptions;                                    \
    void pretty_print(std::ostream& stream) const override { stream << "rush::nn::" #Name "()"; } \
    Tensor forward(const Tensor& input, const Tensor& target) { return __VA_ARGS__; }             \
  };                                                                                              \
  RUSH_MODULE(Name)
RUSH_LOSS(MSELoss, mse_loss(input, target, options.reduction()));
RUSH_LOSS(L1Loss, l1_loss(input, target, options.reduction()));
RUSH_LOSS(BCELoss, binary_cross_entropy(input, target, options.weight(), options.reduction()));
RUSH_LOSS(BCEWithLogitsLoss,
          binary_cross_entropy_with_logits(input, target, options.weight(), options.pos_weight(),
                                           options.reduction()));
RUSH_LOSS(NLLLoss,
          nll_loss(input, target, options.weight(), options.reduction(), options.ignore_index()));
RUSH_LOSS(CrossEntropyLoss, cross_entropy_loss(input, target, options.weight(), options.reduction(),
                                               options.ignore_index(), options.label_smoothing()));
RUSH_LOSS(SmoothL1Loss, smooth_l1_loss(input, target, options.reduction(), options.beta()));
RUSH_LOSS(HuberLoss, huber_loss(input, target, options.reduction(), options.delta()));
RUSH_LOSS(KLDivLoss, kl_div(input, target, options.reduction(), options.log_target()));
#undef RUSH_LOSS

}  // namespace rush::nn
