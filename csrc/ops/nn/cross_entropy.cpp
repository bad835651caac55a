// Cross entropy by class index, and nll_loss: log_softmax, look-up and reduction in one pass
// forward and one backward. Where the backward pass is itself differentiated, the same formula over
// ops takes its place.
#include "ops/nn/cross_entropy.h"

#include <algorithm>

#include "autograd/snapshot.h"
#include "core/shape.h"
#include "device/nn/loss.h"
#include "ops/framework/data.h"
#include "ops/framework/dying.h"
#include "ops/framework/operators.h"
#include "ops/linear_cross_entropy_ops.h"

namespace rush {

Tensor weight_in(const Tensor& weight, DType dtype) {
  if (!weight.defined()) return weight;
  return contiguous_data(weight.dtype() == dtype ? weight : convert_data(weight, dtype));
}

Tensor labels_on(const Tensor& out, const Tensor& target) {
  return contiguous_data(placed(target, out.device()));
}

namespace {

// The formulas over ops.
struct Composed {
  Tensor counts;   // 1 where a position counts, (batch, 1, points)
  Tensor one_hot;  // zero where it does not

  Composed(const Tensor& x, const Tensor& target, int64_t ignore) {
    const Tensor ignored = unsqueeze(eq(target, wrap_number(ignore)), 1);
    const Tensor places = masked_fill(unsqueeze(target, 1), ignored, wrap_number(0));
    counts = cast(logical_not(ignored), x.dtype());
    const Tensor zeros = zeros_like(detach(x));
    one_hot = scatter_add(zeros, 1, places, counts);
  }
};
Tensor by_class(const Tensor& weight) { return reshape(weight, Dims{1, weight.numel(), 1}); }

// May the gradient of x be written into x?
bool takes_gradient(const Tensor& x) {
  return (x.is_contiguous() || loss_loops(x).cross_entropy_keeps_order) && may_overwrite_saved(x);
}

}  // namespace

std::pair<Tensor, Tensor> composed_cross_entropy_gradients(const Tensor& g, const Tensor& x,
                                                           const Tensor& target,
                                                           const Tensor& weight,
                                                           const CrossEntropyRule& rule,
                                                           bool wants_scores, bool wants_weight) {
  const Composed n(x, target, rule.ignore_index);
  const double even = rule.smoothing / double(x.sizes()[1]);
  // The mean divides by the weights of the targets, which depend on the weight.
  const Tensor per_class = weight.defined() ? by_class(weight) : Tensor();
  Tensor sum_w =
      weight.defined() ? sum(n.one_hot * per_class, std::nullopt) : sum(n.counts, std::nullopt);
  // Where nothing counts, the loss is NaN, but its gradient zero.
  sum_w = masked_fill(sum_w, eq(sum_w, wrap_number(0)), wrap_number(1));
  Tensor own = rule.reduction == kMean ? g / sum_w : g;  // of each position
  if (rule.reduction == kNone) own = unsqueeze(own, 1);
  Tensor goal = n.one_hot * Scalar(1 - rule.smoothing);
  if (rule.smoothing > 0) goal = goal + n.counts * Scalar(even);
  const Tensor share = weight.defined() ? goal * per_class : goal;
  std::pair<Tensor, Tensor> out;
  if (wants_scores) {
    out.first =
        rule.scores ? own * (softmax(x, 1) * sum(share, Dims{1}, true) - share) : -(own * share);
  }
  if (wants_weight) {
    const Tensor logs = rule.scores ? log_softmax(x, 1) : x;
    out.second = -sum(own * goal * logs, Dims{0, 2});
    // L = sum / sum_w: the second part of the quotient's derivative.
    if (rule.reduction == kMean)
      out.second = out.second + sum(goal * logs * per_class, std::nullopt) * own / sum_w *
                                    sum(n.one_hot, Dims{0, 2});
  }
  return out;
}

void check_targets_and_weight(const char* op, const Tensor& input, const Tensor& target,
                              const Dims& expected, const Tensor& weight, int64_t classes) {
  check_shape(target.sizes() == expected || (input.dim() == 1 && target.numel() == 1), op,
              "for an input of shape ", input.sizes(),
              " the target of class indices must have shape ", expected, ", got ", target.sizes());
  check_dtype(
      target.dtype() == DType::Int64 || target.dtype() == DType::UInt8, op,
      "class indices must be int64 or uint8, got ", target.dtype(),
      is_integral(target.dtype())
          ? std::string(": convert with target.long()")
          : concat(": convert with target.long(); probabilities would have the input's shape ",
                   input.sizes()));
  check_shape(!weight.defined() || weight.sizes() == Dims{classes}, op,
              "the weight must have one number for each of the ", classes, " classes, got shape ",
              weight.defined() ? weight.sizes() : Dims{});
}

struct CrossEntropyBackward {
  static constexpr const char* name = "cross_entropy_backward";
  static constexpr bool any_device = true;
  static constexpr bool differentiable = false;  // only called where no graph is wanted
  static Spec check(const Tensor&, const Tensor& x, const Tensor&, const Tensor&, const Tensor&,
                    const Tensor&, int64_t, int64_t, double, bool) {
    if (loss_loops(x).cross_entropy_keeps_order) return like(x);
    return {x.sizes(), x.dtype(), x.device()};
  }
  static void run(const Tensor& g, const Tensor& x, const Tensor& target, const Tensor& weight,
                  const Tensor& total, const Tensor& weights, int64_t reduction, int64_t ignore,
                  double smoothing, bool scores, const Tensor& out) {
    const Tensor w = weight_in(weight, compute_type(x.dtype())), labels = labels_on(out, target);
    loss_loops(out).cross_entropy_backward({x, labels, w, reduction, ignore, smoothing, scores},
                                           contiguous_data(g), total, weights, out);
  }
};

struct CrossEntropyForward : ComparesWithTargets {
  static constexpr const char* name = "cross_entropy";
  static constexpr uint32_t non_differentiable = 0b110;
  static std::array<Spec, 3> check(const Tensor& x, const Tensor& target, const Tensor&,
                                   int64_t reduction, int64_t, double, bool scores,
                                   std::optional<DType> dtype) {
    const DType type = compute_type(x.dtype());
    return {
        Spec{reduction == kNone ? target.sizes() : Dims{}, dtype.value_or(x.dtype()), x.device()},
        Spec{scores ? target.sizes() : Dims{0}, type, x.device()},
        Spec{Dims{}, DType::Float64, x.device()}};
  }
  static void run(const Tensor& x, const Tensor& target, const Tensor& weight, int64_t reduction,
                  int64_t ignore, double smoothing, bool scores, std::optional<DType>,
                  const Tensor& out, const Tensor& total, const Tensor& weights) {
    const Tensor w = weight_in(weight, compute_type(x.dtype())), labels = labels_on(out, target);
    loss_loops(out).cross_entropy({x, labels, w, reduction, ignore, smoothing, scores}, out, total,
                                  weights);
  }

  // Not the loss itself: programs scale it in place (loss *= share) before backward.
  static constexpr uint32_t kRead = in(0) | in(1) | in(2) | result(1) | result(2);
  static constexpr uint32_t needs[] = {kRead, 0, kRead};
  static Grads grad(const Ctx& c, GradSpan grads, const Tensor& x, const Tensor& target,
                    const Tensor& weight, int64_t reduction, int64_t ignore, double smoothing,
                    bool scores, std::optional<DType> dtype) {
    const Tensor& g = grads[0];
    if (!g.defined()) return Grads(3);
    if (!is_differentiated(g, x, weight) && !c.wants(2)) {
      if (takes_gradient(x)) {
        _cross_entropy_backward_(x, g, target, weight, c.out(1), c.out(2), reduction, ignore,
                                 smoothing, scores);
        return {in_memory_of(x), Tensor(), Tensor()};
      }
      return {_cross_entropy_backward(g, x, target, weight, c.out(1), c.out(2), reduction, ignore,
                                      smoothing, scores),
              Tensor(), Tensor()};
    }
    if (dtype && *dtype != x.dtype()) {
      // What the loss was computed in.
      return grad(c, grads, cast(x, *dtype), target, weight, reduction, ignore, smoothing, scores,
                  std::nullopt);
    }
    auto [scores_grad, weight_grad] = composed_cross_entropy_gradients(
        g, x, target, weight, {reduction, ignore, smoothing, scores}, c.wants(0), c.wants(2));
    return {std::move(scores_grad), Tensor(), std::move(weight_grad)};
  }
};

struct NllLoss {
  static constexpr const char* name = "cross_entropy";
  static Tensor call(const Tensor& x, const Tensor& given, const Tensor& weight, int64_t reduction,
                     int64_t ignore, double smoothing, bool scores, std::optional<DType> dtype) {
    const char* op = scores ? "cross_entropy" : "nll_loss";
    rush::check(x.dim() >= 1, ErrorKind::Value, op,
                "the input needs a dim of classes, got a 0-d tensor");
    check_dtype(is_floating(x.dtype()), op, "expects a floating point input, got ", x.dtype());
    rush::check(x.dim() == 1 || given.dim() == 0 || x.sizes()[0] == given.sizes()[0],
                ErrorKind::Value, op, "the batch sizes differ: the input is ", x.sizes(),
                ", the target ", given.sizes());
    Dims expected;
    if (x.dim() > 1) {
      expected = Dims(IntList(x.sizes()));
      for (size_t d = 1; d + 1 < expected.size(); ++d) expected[d] = expected[d + 1];
      expected.resize(uint32_t(x.dim() - 1));
    }
    const int64_t classes = x.sizes()[x.dim() > 1 ? 1 : 0];
    check_targets_and_weight(op, x, given, expected, weight, classes);
    common_device(op, {&x, &given, &weight});
    const Tensor target = given.dtype() == DType::Int64 ? given : cast(given, DType::Int64);
    const int64_t batch = x.dim() > 1 ? x.sizes()[0] : 1;
    int64_t points = 1;
    for (int64_t d = 2; d < x.dim(); ++d) points *= x.sizes()[size_t(d)];
    // The scores stay as they are: what is computed from them is float32 anyway.
    const bool may_widen = is_reduced_float(x.dtype()) && dtype == DType::Float32;
    const std::optional<DType> wide = may_widen ? dtype : std::nullopt;
    // PyTorch keeps the log-probabilities: programs may write to the scores. They are kept here,
    // which takes no memory unless somebody does write.
    const SnapshotScope scope;
    const Tensor loss = std::get<0>(_cross_entropy(reshape(x, Dims{batch, classes, points}),
                                                   reshape(target, Dims{batch, points}), weight,
                                                   reduction, ignore, smoothing, scores, wide));
    return reduction == kNone ? reshape(loss, given.sizes()) : loss;
  }
};

}  // namespace rush

#include "ops/cross_entropy.inc"
