// Gradients of activations, each in one pass. With f the activation, op(g, x) = g f'(x); its own
// gradients are h f'(x) with respect to g, the same op again, and h g f''(x) with respect to x,
// written over ops.
#include "ops/pointwise/pointwise.h"

namespace rush {
namespace {

// What f''(x) = 0 leaves.
Tensor flat(const Ctx& c, const Tensor& h) { return c.wants(1) ? zeros_like(h) : Tensor(); }

constexpr double kSqrt2OverPi = 0.79788456080286535588, kInvSqrt2Pi = 0.39894228040143267794;

// Of activations that are straight lines: f''(x) = 0. `again` is the op itself.
template <OpName N, BinaryFn fn, auto again, class... Numbers>
struct StraightBackward : FusedBackward<N, fn, Numbers...> {
  static constexpr uint32_t needs[] = {in(1), 0};
  static Grads grad(const Ctx& c, const Tensor& h, const Tensor&, const Tensor& x,
                    const Numbers&... numbers) {
    return {c.wants(0) ? again(h, x, numbers...) : Tensor(), flat(c, h)};
  }
};

}  // namespace

struct ThresholdBackward : StraightBackward<"threshold_backward", BinaryFn::ThresholdBackward,
                                            threshold_backward, Scalar> {};
struct HardtanhBackward : StraightBackward<"hardtanh_backward", BinaryFn::HardtanhBackward,
                                           hardtanh_backward, Scalar, Scalar> {};
struct LeakyReluBackward : StraightBackward<"leaky_relu_backward", BinaryFn::LeakyReluBackward,
                                            leaky_relu_backward, Scalar> {};
struct ShrinkBackward
    : StraightBackward<"shrink_backward", BinaryFn::ShrinkBackward, shrink_backward, Scalar> {};
struct HardsigmoidBackward : StraightBackward<"hardsigmoid_backward", BinaryFn::HardsigmoidBackward,
                                              hardsigmoid_backward> {};

struct EluBackward : FusedBackward<"elu_backward", BinaryFn::EluBackward, Scalar, Scalar, Scalar> {
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
    return SameBinary<"gelu_backward", BinaryFn::GeluBackward>::check(g, x);
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

struct SoftplusBackward
    : FusedBackward<"softplus_backward", BinaryFn::SoftplusBackward, Scalar, Scalar> {
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

struct HardswishBackward : FusedBackward<"hardswish_backward", BinaryFn::HardswishBackward> {
  static constexpr uint32_t needs[] = {in(1), in(0) | in(1)};
  static Grads grad(const Ctx& c, const Tensor& h, const Tensor& g, const Tensor& x) {
    Tensor wrt_x;
    if (c.wants(1)) wrt_x = keep_where(lt(abs(x), wrap_number(3)), h * g / 3);
    return {c.wants(0) ? hardswish_backward(h, x) : Tensor(), wrt_x};
  }
};

}  // namespace rush

#include "ops/activation_backward.inc"
