// Gradients of activations, each in one pass. With f the activation, op(g, x) = g f'(x); its own
// gradients are h f'(x) with respect to g, the same op again, and h g f''(x) with respect to x,
// written over ops.
#include "ops/pointwise/pointwise.h"

namespace rush {
namespace {

template <BinaryFn fn>
Spec fused(const char* op, const Tensor& g, const Tensor& x) {
  const DType t = result_type(g, x);
  require_kernel<fn>(op, t);
  return pointwise(op, g, x, t);
}

// What f''(x) = 0 leaves.
Tensor flat(const Ctx& c, const Tensor& h) { return c.wants(1) ? zeros_like(h) : Tensor(); }

constexpr double kSqrt2OverPi = 0.79788456080286535588, kInvSqrt2Pi = 0.39894228040143267794;

}  // namespace

struct ThresholdBackward : Named<"threshold_backward"> {
  static Spec check(const Tensor& g, const Tensor& x, const Scalar&) {
    return fused<BinaryFn::ThresholdBackward>(name, g, x);
  }
  static void run(const Tensor& g, const Tensor& x, const Scalar& threshold, const Tensor& out) {
    map_binary(BinaryFn::ThresholdBackward, g, x, out, {threshold});
  }
  static constexpr uint32_t needs[] = {in(1), 0};
  static Grads grad(const Ctx& c, const Tensor& h, const Tensor&, const Tensor& x,
                    const Scalar& threshold) {
    return {c.wants(0) ? threshold_backward(h, x, threshold) : Tensor(), flat(c, h)};
  }
};

struct HardtanhBackward : Named<"hardtanh_backward"> {
  static Spec check(const Tensor& g, const Tensor& x, const Scalar&, const Scalar&) {
    return fused<BinaryFn::HardtanhBackward>(name, g, x);
  }
  static void run(const Tensor& g, const Tensor& x, const Scalar& lo, const Scalar& hi,
                  const Tensor& out) {
    map_binary(BinaryFn::HardtanhBackward, g, x, out, {lo, hi});
  }
  static constexpr uint32_t needs[] = {in(1), 0};
  static Grads grad(const Ctx& c, const Tensor& h, const Tensor&, const Tensor& x, const Scalar& lo,
                    const Scalar& hi) {
    return {c.wants(0) ? hardtanh_backward(h, x, lo, hi) : Tensor(), flat(c, h)};
  }
};

struct LeakyReluBackward : Named<"leaky_relu_backward"> {
  static Spec check(const Tensor& g, const Tensor& x, const Scalar&) {
    return fused<BinaryFn::LeakyReluBackward>(name, g, x);
  }
  static void run(const Tensor& g, const Tensor& x, const Scalar& slope, const Tensor& out) {
    map_binary(BinaryFn::LeakyReluBackward, g, x, out, {slope});
  }
  static constexpr uint32_t needs[] = {in(1), 0};
  static Grads grad(const Ctx& c, const Tensor& h, const Tensor&, const Tensor& x,
                    const Scalar& slope) {
    return {c.wants(0) ? leaky_relu_backward(h, x, slope) : Tensor(), flat(c, h)};
  }
};

struct EluBackward : Named<"elu_backward"> {
  static Spec check(const Tensor& g, const Tensor& x, const Scalar&, const Scalar&, const Scalar&) {
    return fused<BinaryFn::EluBackward>(name, g, x);
  }
  static void run(const Tensor& g, const Tensor& x, const Scalar& alpha, const Scalar& scale,
                  const Scalar& input_scale, const Tensor& out) {
    map_binary(BinaryFn::EluBackward, g, x, out, {alpha, scale, input_scale});
  }
  static constexpr uint32_t needs[] = {in(1), in(0) | in(1)};
  static Grads grad(const Ctx& c, const Tensor& h, const Tensor& g, const Tensor& x,
                    const Scalar& alpha, const Scalar& scale, const Scalar& input_scale) {
    Tensor wrt_x;
    if (c.wants(1)) {
      const double k = input_scale.to_double(),
                   factor = alpha.to_double() * scale.to_double() * k * k;
      wrt_x = zero_where(gt(x, wrap_number(0)), h * g * (exp(x * k) * factor));
    }
    return {c.wants(0) ? elu_backward(h, x, alpha, scale, input_scale) : Tensor(), wrt_x};
  }
};

struct SiluBackward : FusedBackward<"silu_backward", BinaryFn::SiluBackward> {
  static constexpr uint32_t needs[] = {in(1), in(0) | in(1)};
  static Grads grad(const Ctx& c, const Tensor& h, const Tensor& g, const Tensor& x) {
    Tensor wrt_x;
    if (c.wants(1)) {
      const Tensor s = sigmoid(x);
      wrt_x = h * g * (s * (1 - s) * (x * (1 - s * 2) + 2));
    }
    return {c.wants(0) ? silu_backward(h, x) : Tensor(), wrt_x};
  }
};

struct MishBackward : FusedBackward<"mish_backward", BinaryFn::MishBackward> {
  static constexpr uint32_t needs[] = {in(1), in(0) | in(1)};
  // f = x t with t = tanh(softplus(x)), t' = s (1 - t^2), s = sigmoid(x).
  static Grads grad(const Ctx& c, const Tensor& h, const Tensor& g, const Tensor& x) {
    Tensor wrt_x;
    if (c.wants(1)) {
      const Tensor s = sigmoid(x), t = tanh(softplus(x)), slope = s * (1 - square(t));
      wrt_x = h * g * slope * (x * (1 - s - t * s * 2) + 2);
    }
    return {c.wants(0) ? mish_backward(h, x) : Tensor(), wrt_x};
  }
};

struct GeluBackward : Named<"gelu_backward"> {
  static Spec check(const Tensor& g, const Tensor& x, std::string_view) {
    return fused<BinaryFn::GeluBackward>(name, g, x);
  }
  static void run(const Tensor& g, const Tensor& x, std::string_view approximate,
                  const Tensor& out) {
    map_binary(approximate == "tanh" ? BinaryFn::GeluTanhBackward : BinaryFn::GeluBackward, g, x,
               out);
  }
  static constexpr uint32_t needs[] = {in(1), in(0) | in(1)};
  static Grads grad(const Ctx& c, const Tensor& h, const Tensor& g, const Tensor& x,
                    std::string_view approximate) {
    Tensor wrt_x;
    if (c.wants(1))
      wrt_x = h * g *
              (approximate == "tanh" ? second_of_tanh(x)
                                     : (2 - square(x)) * (exp(square(x) * -0.5) * kInvSqrt2Pi));
    return {c.wants(0) ? gelu_backward(h, x, approximate) : Tensor(), wrt_x};
  }
  // f = x (1 + t) / 2 with t = tanh(u), u = k (x + a x^3).
  static Tensor second_of_tanh(const Tensor& x) {
    constexpr double a = 0.044715;
    const Tensor q = square(x), t = tanh((x + x * q * a) * kSqrt2OverPi);
    const Tensor u1 = (q * (3 * a) + 1) * kSqrt2OverPi, u2 = x * (6 * a * kSqrt2OverPi);
    return (1 - square(t)) * (u1 + x * u2 * 0.5 - x * t * square(u1));
  }
};

struct SoftplusBackward : Named<"softplus_backward"> {
  static Spec check(const Tensor& g, const Tensor& x, const Scalar&, const Scalar&) {
    return fused<BinaryFn::SoftplusBackward>(name, g, x);
  }
  static void run(const Tensor& g, const Tensor& x, const Scalar& beta, const Scalar& threshold,
                  const Tensor& out) {
    map_binary(BinaryFn::SoftplusBackward, g, x, out, {beta, threshold});
  }
  static constexpr uint32_t needs[] = {in(1), in(0) | in(1)};
  static Grads grad(const Ctx& c, const Tensor& h, const Tensor& g, const Tensor& x,
                    const Scalar& beta, const Scalar& threshold) {
    Tensor wrt_x;
    if (c.wants(1)) {
      const Tensor s = sigmoid(x * beta);
      wrt_x = zero_where(gt(x * beta, wrap_number(threshold)), h * g * (s * (1 - s) * beta));
    }
    return {c.wants(0) ? softplus_backward(h, x, beta, threshold) : Tensor(), wrt_x};
  }
};

struct LogSigmoidBackward : FusedBackward<"log_sigmoid_backward", BinaryFn::LogSigmoidBackward> {
  static constexpr uint32_t needs[] = {in(1), in(0) | in(1)};
  static Grads grad(const Ctx& c, const Tensor& h, const Tensor& g, const Tensor& x) {
    Tensor wrt_x;
    if (c.wants(1)) wrt_x = neg(h * g * (sigmoid(x) * sigmoid(neg(x))));
    return {c.wants(0) ? log_sigmoid_backward(h, x) : Tensor(), wrt_x};
  }
};

struct HardsigmoidBackward : FusedBackward<"hardsigmoid_backward", BinaryFn::HardsigmoidBackward> {
  static constexpr uint32_t needs[] = {in(1), 0};
  static Grads grad(const Ctx& c, const Tensor& h, const Tensor&, const Tensor& x) {
    return {c.wants(0) ? hardsigmoid_backward(h, x) : Tensor(), flat(c, h)};
  }
};

struct HardswishBackward : FusedBackward<"hardswish_backward", BinaryFn::HardswishBackward> {
  static constexpr uint32_t needs[] = {in(1), in(0) | in(1)};
  static Grads grad(const Ctx& c, const Tensor& h, const Tensor& g, const Tensor& x) {
    Tensor wrt_x;
    if (c.wants(1)) wrt_x = keep_where(lt(abs(x), wrap_number(3)), h * g / 3);
    return {c.wants(0) ? hardswish_backward(h, x) : Tensor(), wrt_x};
  }
};

struct ShrinkBackward : Named<"shrink_backward"> {
  static Spec check(const Tensor& g, const Tensor& x, const Scalar&) {
    return fused<BinaryFn::ShrinkBackward>(name, g, x);
  }
  static void run(const Tensor& g, const Tensor& x, const Scalar& lambd, const Tensor& out) {
    map_binary(BinaryFn::ShrinkBackward, g, x, out, {lambd});
  }
  static constexpr uint32_t needs[] = {in(1), 0};
  static Grads grad(const Ctx& c, const Tensor& h, const Tensor&, const Tensor& x,
                    const Scalar& lambd) {
    return {c.wants(0) ? shrink_backward(h, x, lambd) : Tensor(), flat(c, h)};
  }
};

}  // namespace rush

#include "ops/activation_backward.inc"
