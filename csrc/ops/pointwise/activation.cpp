// Activations. Each gradient is one fused pass, an op of activation_backward.cpp.
#include "autograd/snapshot.h"
#include "ops/framework/fits.h"
#include "ops/pointwise/pointwise.h"

namespace rush {
namespace {

// gelu, elu, ...: floating tensors only, and the result is like the input.
template <UnaryFn fn>
Spec floating_like(const char* op, const Tensor& x) {
  require_kernel<fn>(op, x.dtype());
  return like(x);
}

// With one number, which the gradient's op `backward` takes as well.
template <OpName N, UnaryFn fn, Tensor (*backward)(const Tensor&, const Tensor&, const Scalar&)>
struct NumberActivation : Named<N> {
  static Spec check(const Tensor& x, const Scalar&) { return floating_like<fn>(N.text, x); }
  static void run(const Tensor& x, const Scalar& number, const Tensor& out) {
    map_unary(fn, x, out, {number});
  }
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x, const Scalar& number) {
    return {backward(g, x, number)};
  }
};

}  // namespace

struct Relu : SameUnary<"relu", UnaryFn::Relu> {
  static Spec check(const Tensor& x) {
    check_dtype(x.dtype() != DType::Bool, name, "not defined for bool tensors");
    return SameUnary::check(x);
  }
  static constexpr uint32_t needs[] = {kOut};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&) {
    return {threshold_backward(g, c.out(), 0)};
  }
};

struct Relu6 : Named<"relu6"> {
  static Tensor call(const Tensor& x) { return hardtanh(x, 0, 6); }
};

struct Threshold : Named<"threshold"> {
  static constexpr bool in_place_safe = true;
  static Spec check(const Tensor& x, const Scalar& threshold, const Scalar& value) {
    const Spec spec = floating_like<UnaryFn::Threshold>(name, x);
    check_fits(name, spec.dtype, threshold);
    check_fits(name, spec.dtype, value);
    return spec;
  }
  static void run(const Tensor& x, const Scalar& threshold, const Scalar& value,
                  const Tensor& out) {
    map_unary(UnaryFn::Threshold, x, out, {threshold, value});
  }
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x, const Scalar& threshold,
                    const Scalar&) {
    return {threshold_backward(g, x, threshold)};
  }
};

struct Hardtanh : Named<"hardtanh"> {
  static constexpr bool in_place_safe = true;
  static Spec check(const Tensor& x, const Scalar& lo, const Scalar& hi) {
    check_dtype(x.dtype() != DType::Bool, name, "not defined for bool tensors");
    require_kernel<UnaryFn::Hardtanh>(name, x.dtype());
    rush::check(!is_integral(x.dtype()) || info(x.dtype()).is_signed ||
                    (lo.to_double() >= 0 && hi.to_double() >= 0),
                ErrorKind::Runtime, name, "negative limits do not fit the dtype ", x.dtype());
    rush::check(lo.to_double() <= hi.to_double(), ErrorKind::Value, name, "min_val ", lo,
                " must not be greater than max_val ", hi);
    return like(x);
  }
  static void run(const Tensor& x, const Scalar& lo, const Scalar& hi, const Tensor& out) {
    map_unary(UnaryFn::Hardtanh, x, out, {lo, hi});
  }
  // What lies at a limit lies there before and after: the result tells, and an in-place call need
  // not keep the input. Half types round the limits, and so must the comparison.
  static constexpr uint32_t needs[] = {kOut};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, const Scalar& lo,
                    const Scalar& hi) {
    const Tensor& y = c.out();
    return {hardtanh_backward(g, y, rounded(lo, y.dtype()), rounded(hi, y.dtype()))};
  }

 private:
  static Scalar rounded(const Scalar& limit, DType t) {
    if (t == DType::Float16)
      return double(float(limit.to<struct half>()));  // (`half` is an op, too)
    if (t == DType::BFloat16) return double(float(limit.to<struct bfloat16>()));
    return limit;
  }
};

// Programs may write to the result, as PyTorch keeps the input.
template <>
void op::OpNode<Hardtanh, Tensor, Scalar, Scalar>::save_outputs(uint32_t,
                                                                std::span<const Tensor> outs) {
  const SnapshotScope scope;
  outs_.push_back(SavedTensor::output(outs[0], 0));
}

struct LeakyRelu : NumberActivation<"leaky_relu", UnaryFn::LeakyRelu, leaky_relu_backward> {
  static constexpr bool in_place_safe = true;
};

struct Elu : Named<"elu"> {
  static constexpr bool in_place_safe = true;
  static Spec check(const Tensor& x, const Scalar&, const Scalar&, const Scalar&) {
    return floating_like<UnaryFn::Elu>(name, x);
  }
  static void run(const Tensor& x, const Scalar& alpha, const Scalar& scale,
                  const Scalar& input_scale, const Tensor& out) {
    map_unary(UnaryFn::Elu, x, out, {alpha, scale, input_scale});
  }
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x, const Scalar& alpha,
                    const Scalar& scale, const Scalar& input_scale) {
    return {elu_backward(g, x, alpha, scale, input_scale)};
  }
};

struct Selu : Named<"selu"> {
  static Tensor call(const Tensor& x) {
    return elu(x, 1.6732632423543772848, 1.0507009873554804934, 1);
  }
};

struct Celu : Named<"celu"> {
  static Tensor call(const Tensor& x, const Scalar& alpha) {
    check(!alpha.equals(0), ErrorKind::Runtime, name, "alpha must not be zero");
    return elu(x, alpha, 1, 1.0 / alpha.to_double());
  }
};

struct Silu : SameUnary<"silu", UnaryFn::Silu> {
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) {
    if (!x.is_complex()) return {silu_backward(g, x)};
    const Tensor s = sigmoid(x);
    return {g * conj(s * (x * (1 - s) + 1))};
  }
};

struct Mish : SameUnary<"mish", UnaryFn::Mish> {
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) { return {mish_backward(g, x)}; }
};

struct Gelu : Named<"gelu"> {
  static constexpr bool in_place_safe = true;
  static Spec check(const Tensor& x, std::string_view approximate) {
    check_argument(approximate == "none" || approximate == "tanh", name,
                   "approximate must be 'none' or 'tanh', got '", approximate, "'");
    return floating_like<UnaryFn::Gelu>(name, x);
  }
  static void run(const Tensor& x, std::string_view approximate, const Tensor& out) {
    map_unary(approximate == "tanh" ? UnaryFn::GeluTanh : UnaryFn::Gelu, x, out);
  }
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x, std::string_view approximate) {
    return {gelu_backward(g, x, approximate)};
  }
};

struct Softplus : Named<"softplus"> {
  static Spec check(const Tensor& x, const Scalar&, const Scalar&) {
    return floating_like<UnaryFn::Softplus>(name, x);
  }
  static void run(const Tensor& x, const Scalar& beta, const Scalar& threshold, const Tensor& out) {
    map_unary(UnaryFn::Softplus, x, out, {beta, threshold});
  }
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x, const Scalar& beta,
                    const Scalar& threshold) {
    return {softplus_backward(g, x, beta, threshold)};
  }
};

struct LogSigmoid : SameUnary<"log_sigmoid", UnaryFn::LogSigmoid> {
  static Spec check(const Tensor& x) {  // lies end to end, as PyTorch's, but for channels last
    Spec spec = SameUnary::check(x);
    if (!x.is_channels_last()) spec.strides = {};
    return spec;
  }
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) {
    return {log_sigmoid_backward(g, x)};
  }
};

struct Hardsigmoid : SameUnary<"hardsigmoid", UnaryFn::Hardsigmoid> {
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) {
    return {hardsigmoid_backward(g, x)};
  }
};

struct Hardswish : SameUnary<"hardswish", UnaryFn::Hardswish> {
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) {
    return {hardswish_backward(g, x)};
  }
};

struct Softsign : Named<"softsign"> {
  static Tensor call(const Tensor& x) { return x / (abs(x) + 1); }
};

struct Tanhshrink : Named<"tanhshrink"> {
  static Tensor call(const Tensor& x) { return x - tanh(x); }
};

struct Softshrink : NumberActivation<"softshrink", UnaryFn::Softshrink, shrink_backward> {
  static Spec check(const Tensor& x, const Scalar& lambd) {
    rush::check(lambd.to_double() >= 0, ErrorKind::Runtime, name,
                "lambd must not be negative, got ", lambd);
    return NumberActivation::check(x, lambd);
  }
};

struct Hardshrink : NumberActivation<"hardshrink", UnaryFn::Hardshrink, shrink_backward> {};

struct PreluKernel : SameBinary<"prelu", BinaryFn::Prelu> {
  static constexpr uint32_t needs[] = {in(0) | in(1), in(0)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& x, const Tensor& w) {
    const Tensor above = gt(x, wrap_number(0));
    return {c.wants(0) ? where(above, g, g * w) : Tensor(),
            c.wants(1) ? zero_where(above, g * x) : Tensor()};
  }
};

struct GluKernel : SameBinary<"glu", BinaryFn::Glu> {
  static constexpr uint32_t needs[] = {in(1), in(0) | in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& x, const Tensor& gate) {
    return {c.wants(0) ? _glu(g, gate) : Tensor(),
            c.wants(1) ? sigmoid_backward(g * x, sigmoid(gate)) : Tensor()};
  }
};

struct Prelu : Named<"prelu"> {
  static Tensor call(const Tensor& x, const Tensor& weight) {
    check_dtype(x.dtype() == weight.dtype(), name, "self and weight must have one dtype, they are ",
                x.dtype(), " and ", weight.dtype());
    check(x.is_floating(), ErrorKind::DType, name, "not implemented for ", x.dtype(), " tensors");
    check_shape(weight.dim() <= 1, name, "weight must have one dimension or none, its shape is ",
                weight.sizes());
    Tensor w = weight;
    if (weight.numel() != 1) {
      const int64_t channels = x.dim() > 1 ? x.sizes()[1] : 1;
      check_shape(weight.numel() == channels, name,
                  "there must be one weight, or one per channel (", channels, "), there are ",
                  weight.numel());
      Dims shape(uint32_t(x.dim()), 1);
      shape[1] = channels;
      w = reshape(weight, shape);
    } else if (weight.dim() == 1 && x.dim() == 0) {
      w = reshape(weight, Dims{});
    }
    return _prelu(x, w);
  }
};

}  // namespace rush

#include "ops/activation.inc"
