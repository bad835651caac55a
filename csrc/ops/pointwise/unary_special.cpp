// Special functions of one tensor.
#include "autograd/snapshot.h"
#include "ops/pointwise/pointwise.h"

namespace rush {
namespace {

constexpr double kTwoOverSqrtPi = 1.12837916709551257390, kHalfSqrtPi = 0.88622692545275801365;
constexpr double kLogPi = 1.14472988584940017414;

}  // namespace

struct Erf : FloatUnary<"erf", UnaryFn::Erf> {
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) {
    return {g * (exp(neg(square(x))) * kTwoOverSqrtPi)};
  }
};

struct Erfc : FloatUnary<"erfc", UnaryFn::Erfc> {
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) {
    return {g * (exp(neg(square(x))) * -kTwoOverSqrtPi)};
  }
};

struct Erfinv : FloatUnary<"erfinv", UnaryFn::Erfinv> {
  static constexpr uint32_t needs[] = {kOut};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&) {
    return {g * (exp(square(c.out())) * kHalfSqrtPi)};
  }
};
// Programs may write to the result, as PyTorch keeps the input.
template <>
void op::OpNode<Erfinv, Tensor>::save_outputs(uint32_t, std::span<const Tensor> outs) {
  const SnapshotScope scope;
  outs_.push_back(SavedTensor::output(outs[0], 0));
}

struct Lgamma : FloatUnary<"lgamma", UnaryFn::Lgamma> {
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) { return {g * digamma(x)}; }
};

struct Digamma : FloatUnary<"digamma", UnaryFn::Digamma> {
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) { return {g * polygamma(1, x)}; }
};

struct Polygamma : Named<"polygamma"> {
  static constexpr bool in_place_safe = true;
  static Spec check(int64_t n, const Tensor& x) {
    rush::check(n >= 0, ErrorKind::Runtime, name, "the order n must not be negative, got ", n);
    const DType t = float_type(x.dtype());
    require_kernel<UnaryFn::Polygamma>(name, t);
    return like(x, t);
  }
  static void run(int64_t n, const Tensor& x, const Tensor& out) {
    const DType compute = compute_type(float_type(x.dtype()));
    if (n == 0) return map_unary(UnaryFn::Digamma, x, out, {}, compute);
    map_unary(UnaryFn::Polygamma, x, out, {n}, compute);
  }
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, int64_t n, const Tensor& x) {
    return {g * polygamma(n + 1, x)};
  }
};

struct Polygamma_ : Named<"polygamma_"> {
  static Tensor call(const Tensor& x, int64_t n) { return copy_(x, polygamma(n, x)); }
};

struct Mvlgamma : Named<"mvlgamma"> {
  static Tensor call(const Tensor& x, int64_t p) {
    check(p >= 1, ErrorKind::Runtime, name, "the dimension p must be at least 1, got ", p);
    check(!x.is_complex(), ErrorKind::DType, name, "not implemented for ", x.dtype(), " tensors");
    Tensor sum = lgamma(x) + 0.25 * double(p) * double(p - 1) * kLogPi;
    if (p > 32) {  // as one tensor, so that an absurd p runs out of memory and not of time
      const DType wide = float_type(x.dtype());
      const Tensor halves =
          arange(Scalar(int64_t{1}), Scalar(p), Scalar(int64_t{1}), wide, {}, x.device()) * 0.5;
      return sum + rush::sum(lgamma(unsqueeze(x, -1) - halves), Dims{-1});
    }
    for (int64_t i = 1; i < p; ++i) sum = sum + lgamma(x - 0.5 * double(i));
    return sum;
  }
};

struct I0 : FloatUnary<"i0", UnaryFn::I0> {
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) { return {g * special_i1(x)}; }
};

struct SpecialI1 : FloatUnary<"special_i1", UnaryFn::I1> {
  static constexpr uint32_t needs[] = {in(0)};
  // i1(x) / x tends to 1/2.
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) {
    return {g * (i0(x) - where(eq(x, wrap_number(0)), Scalar(0.5), special_i1(x) / x))};
  }
};

struct Logit : Named<"logit"> {
  static constexpr bool in_place_safe = true;
  static Spec check(const Tensor& x, std::optional<double>) {
    const DType t = float_type(x.dtype());
    require_kernel<UnaryFn::Logit>(name, t);
    return like(x, t);
  }
  static void run(const Tensor& x, std::optional<double> eps, const Tensor& out) {
    map_unary(UnaryFn::Logit, x, out, {eps.value_or(-1.0)}, compute_type(float_type(x.dtype())));
  }
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x, std::optional<double> eps) {
    return {logit_backward(g, x, eps.value_or(-1.0))};
  }
};

struct LogitBackward : Named<"logit_backward"> {
  static Spec check(const Tensor& g, const Tensor& x, double) {
    return pointwise(name, g, x, result_type(g, x));
  }
  static void run(const Tensor& g, const Tensor& x, double eps, const Tensor& out) {
    map_binary(BinaryFn::LogitBackward, g, x, out, {eps});
  }
  static constexpr uint32_t needs[] = {in(1), in(0) | in(1)};
  static Grads grad(const Ctx& c, const Tensor& h, const Tensor& g, const Tensor& x, double eps) {
    Tensor wrt_x;
    if (c.wants(1)) wrt_x = logit_backward(h * g, x, eps) * ((2 * x - 1) / (x * (1 - x)));
    return {c.wants(0) ? logit_backward(h, x, eps) : Tensor(), wrt_x};
  }
};

}  // namespace rush

#include "ops/unary_special.inc"
