// Losses of input and target, element by element: loss and reduction in one pass forward, one
// backward. Where the backward pass is itself differentiated, formulas over ops take its place.
#include "device/nn/loss.h"

#include "ops/framework/data.h"
#include "ops/framework/differentiated.h"
#include "ops/framework/op.h"
#include "ops/framework/operators.h"
#include "ops/framework/snapshot_node.h"

namespace rush {

namespace {

constexpr int64_t kNone = 0, kMean = 1;

const char* loss_name(int64_t kind) {
  static constexpr const char* names[] = {"l1_loss",
                                          "mse_loss",
                                          "smooth_l1_loss",
                                          "huber_loss",
                                          "binary_cross_entropy_with_logits",
                                          "binary_cross_entropy"};
  return names[kind];
}

// Contiguous, on the result's device: a 0-d tensor may come from the host.
Tensor on(const Tensor& out, const Tensor& t) { return contiguous_data(placed(t, out.device())); }

// The derivative of one element's loss by the input, over ops.
Tensor slope(LossFn fn, const Tensor& x, const Tensor& t, double parameter) {
  switch (fn) {
    case LossFn::L1:
      return sign(x - t);
    case LossFn::Mse:
      return (x - t) * Scalar(2);
    case LossFn::SmoothL1:
      return clamp((x - t) / Scalar(parameter), Scalar(-1.0), Scalar(1.0));
    case LossFn::Huber:
      return clamp(x - t, Scalar(-parameter), Scalar(parameter));
    case LossFn::Binary:
      return (x - t) / clamp((Scalar(1) - x) * x, Scalar(1e-12), std::nullopt);
    default:
      return sigmoid(x) - t;
  }
}

}  // namespace

struct ElementLossBackward {
  static constexpr const char* name = "loss_backward";
  static constexpr bool any_device = true;
  static constexpr bool differentiable = false;  // only called where no graph is wanted
  static Spec check(const Tensor&, const Tensor& x, const Tensor&, int64_t, double, int64_t) {
    return {x.sizes(), x.dtype(), x.device()};
  }
  static void run(const Tensor& g, const Tensor& x, const Tensor& t, int64_t kind, double parameter,
                  int64_t reduction, const Tensor& out) {
    const double scale = reduction == kMean ? 1 / double(x.numel()) : 1;
    const Tensor a = on(out, x), b = on(out, t), each = on(out, g);
    loss_loops(out).element_backward(LossFn(kind), a, b, parameter, each, scale, out);
  }
};

struct ElementLoss {
  static constexpr const char* name = "loss";
  static constexpr bool any_device = true;
  static Spec check(const Tensor& x, const Tensor& t, int64_t kind, double, int64_t reduction) {
    check_argument(kind >= 0 && kind < int64_t(LossFn::kCount), name, "unknown kind ", kind);
    check_shape(x.sizes() == t.sizes(), loss_name(kind),
                "input and target differ in shape: ", x.sizes(), " and ", t.sizes());
    const bool looped = x.dtype() == DType::Float32 || x.dtype() == DType::Float64 ||
                        (is_floating(x.dtype()) && loss_loops(x).element_takes_halves);
    check_dtype(x.dtype() == t.dtype() && looped, loss_name(kind),
                "expected two tensors of float32 or of float64, got ", x.dtype(), " and ",
                t.dtype());
    return {reduction == kNone ? x.sizes() : Dims{}, x.dtype(),
            common_device(loss_name(kind), {&x, &t})};
  }
  static void run(const Tensor& x, const Tensor& t, int64_t kind, double parameter,
                  int64_t reduction, const Tensor& out) {
    const Tensor a = on(out, x), b = on(out, t);
    const LossLoops& loops = loss_loops(out);
    if (reduction == kNone) return loops.element(LossFn(kind), a, b, parameter, out);
    const double divisor = reduction == kMean ? double(x.numel()) : 1;
    loops.element_sum(LossFn(kind), a, b, parameter, divisor, out);
  }
  static constexpr uint32_t needs[] = {in(0) | in(1), in(0) | in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& x, const Tensor& t, int64_t kind,
                    double parameter, int64_t reduction) {
    const LossFn fn = LossFn(kind);
    const Scalar share(reduction == kMean ? 1 / double(x.numel()) : 1.0);
    const bool logits = fn == LossFn::BinaryLogits, distance = !logits && fn != LossFn::Binary;
    Tensor gx, gt;
    if (!is_differentiated(g, x, t) && (c.wants(0) || distance))
      gx = _element_loss_backward(g, x, t, kind, parameter, reduction);
    else if (c.wants(0) || distance)
      gx = slope(fn, x, t, parameter) * (g * share);
    // Distances depend on the difference alone; the other losses are linear in the target.
    if (c.wants(1)) gt = distance ? -gx : (logits ? -x : log1p(-x) - log(x)) * (g * share);
    return {c.wants(0) ? gx : Tensor(), gt};
  }
};

// PyTorch's l1_loss keeps the difference: programs may write to the input and the target.
template <>
auto op::make_node<ElementLoss>(const Tensor& x, const Tensor& t, const int64_t& kind,
                                const double& parameter, const int64_t& reduction)
    -> Ref<OpNode<ElementLoss, Tensor, Tensor, int64_t, double, int64_t>> {
  return make_snapshot_node<ElementLoss>(x, t, kind, parameter, reduction);
}

}  // namespace rush

#include "ops/loss.inc"
