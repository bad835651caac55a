#include "frontend/losses.h"

#include "ops/framework/operators.h"
#include "ops/ops.h"

namespace rush {
namespace {

// As csrc/ops/nn/loss.cpp numbers them.
enum ElementLoss : int64_t { kL1, kSquares, kSmoothL1, kHuber, kLogits, kProbabilities };

Tensor reduced(const Tensor& loss, Reduction reduction) {
  return reduction == kMean ? mean(loss) : reduction == kSum ? sum(loss) : loss;
}

// Half types on the CPU go through float32: the loop has no half ones there.
Tensor element_loss(const char* op, ElementLoss kind, const Tensor& input, const Tensor& target,
                    double parameter, Reduction reduction) {
  check_shape(input.sizes() == target.sizes(), op, "input and target must have the same size, got ",
              input.sizes(), " and ", target.sizes());
  check_dtype(input.is_floating() && target.dtype() == input.dtype(), op,
              "input and target must be floating point of one dtype, got ", input.dtype(), " and ",
              target.dtype());
  const bool narrow = input.is_cpu() && element_size(input.dtype()) < 4;
  if (!narrow) return _element_loss(input, target, kind, parameter, int64_t(reduction));
  const Tensor wide = _element_loss(cast(input, DType::Float32), cast(target, DType::Float32), kind,
                                    parameter, int64_t(Reduction::None));
  return reduced(cast(wide, input.dtype()), reduction);
}

void check_probability(const char* op, double p) {
  check(p >= 0 && p <= 1, ErrorKind::Value, op, "the probability must be between 0 and 1, got ", p);
}

Tensor drop(const Tensor& input, IntList shape, double p) {
  check_dtype(input.is_floating() || input.is_complex(), "dropout",
              "expects a floating point input, got ", input.dtype());
  if (p == 0 || input.numel() == 0) return input * Scalar(1.0);
  return p == 1 ? input * Scalar(0.0) : _dropout(input, shape, p);
}

}  // namespace

Tensor nll_loss(const Tensor& input, const Tensor& target, const Tensor& weight,
                Reduction reduction, int64_t ignore_index) {
  return _nll_loss(input, target, weight, int64_t(reduction), ignore_index, 0, false);
}

Tensor cross_entropy_loss(const Tensor& input, const Tensor& target, const Tensor& weight,
                          Reduction reduction, int64_t ignore_index, double label_smoothing) {
  check(label_smoothing >= 0 && label_smoothing <= 1, ErrorKind::Runtime, "cross_entropy",
        "label_smoothing must be between 0 and 1, got ", label_smoothing);
  check_index(input.dim() > 0, "cross_entropy",
              "the input needs a dim of classes, got a 0-d tensor");
  check(target.sizes() != input.sizes(), ErrorKind::NotImplemented, "cross_entropy",
        "a probability for each class as the target is not available in C++ yet; give class "
        "indices, or write -(target * log_softmax(input, 1)).sum(1).mean()");
  return _nll_loss(input, target, weight, int64_t(reduction), ignore_index, label_smoothing, true);
}

Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  return element_loss("mse_loss", kSquares, input, target, 0, reduction);
}

Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  return element_loss("l1_loss", kL1, input, target, 0, reduction);
}

Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, Reduction reduction, double beta) {
  check(beta >= 0, ErrorKind::Runtime, "smooth_l1_loss", "beta must not be negative, got ", beta);
  if (beta == 0) return l1_loss(input, target, reduction);
  return element_loss("smooth_l1_loss", kSmoothL1, input, target, beta, reduction);
}

Tensor huber_loss(const Tensor& input, const Tensor& target, Reduction reduction, double delta) {
  check(delta > 0, ErrorKind::Runtime, "huber_loss", "delta must be positive, got ", delta);
  return element_loss("huber_loss", kHuber, input, target, delta, reduction);
}

Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const Tensor& weight,
                            Reduction reduction) {
  if (input.is_cpu() && input.numel() > 0) {  // a GPU looks while it computes
    const auto [low, high] = aminmax(detach(input));
    const double least = low.item().to_double(), most = high.item().to_double();
    check(least >= 0 && most <= 1, ErrorKind::Runtime, "binary_cross_entropy",
          "the input must be probabilities between 0 and 1, got ", least, " to ", most,
          "; for raw scores use binary_cross_entropy_with_logits");
  }
  const char* op = "binary_cross_entropy";
  if (!weight.defined()) return element_loss(op, kProbabilities, input, target, 0, reduction);
  const Tensor loss = element_loss(op, kProbabilities, input, target, 0, kNone);
  return reduced(loss * weight, reduction);
}

Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const Tensor& weight, const Tensor& pos_weight,
                                        Reduction reduction) {
  const char* op = "binary_cross_entropy_with_logits";
  if (!weight.defined() && !pos_weight.defined())
    return element_loss(op, kLogits, input, target, 0, reduction);
  check_shape(input.sizes() == target.sizes(), op, "input and target must have the same size, got ",
              input.sizes(), " and ", target.sizes());
  Tensor log = log_sigmoid(input);
  if (pos_weight.defined()) log = log * ((pos_weight - Scalar(1)) * target + Scalar(1));
  Tensor loss = (Scalar(1) - target) * input - log;
  if (weight.defined()) loss = loss * weight;
  return reduced(loss, reduction);
}

Tensor kl_div(const Tensor& input, const Tensor& target, Reduction reduction, bool log_target) {
  const Tensor loss =
      log_target ? exp(target) * (target - input) : xlogy(target, target) - target * input;
  return reduced(loss, reduction);
}

Tensor dropout(const Tensor& input, double p, bool train) {
  check_probability("dropout", p);
  return train ? drop(input, input.sizes(), p) : input;
}

Tensor feature_dropout(const Tensor& input, double p, bool train) {
  check_probability("feature_dropout", p);
  check_shape(input.dim() >= 2, "feature_dropout",
              "the input needs a batch and a channel dim, got shape ", input.sizes());
  if (!train) return input;
  Dims shape = input.sizes();
  for (uint32_t d = 2; d < shape.size(); ++d) shape[d] = 1;
  return drop(input, shape, p);
}

}  // namespace rush
