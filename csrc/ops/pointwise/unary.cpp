// Pointwise ops of one tensor. Gradients stand beside their op; formulas of values in
// functors/unary.h.
#include <cmath>
#include <limits>

#include "ops/framework/data.h"
#include "ops/framework/dying.h"
#include "ops/pointwise/pointwise.h"

namespace rush {
namespace {

// The derivative of a step is zero wherever there is one.
struct ZeroGrad {
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&) { return {zeros_like(g)}; }
};

constexpr double kLn2 = 0.693147180559945309417, kLn10 = 2.302585092994045684018;

}  // namespace

struct Abs : Named<"abs"> {
  static constexpr bool takes_float8 = true;
  static constexpr bool in_place_safe = true;
  static Spec check(const Tensor& x) {
    if (x.is_complex()) return like(x, to_real(x.dtype()));
    require_kernel<UnaryFn::Abs>(name, x.dtype());
    return like(x);
  }
  static void check_in_place(const Tensor& x, const Spec&) {
    check_dtype(
        !x.is_complex(), "abs_",
        "the absolute value of a complex tensor is real and cannot be written in place; use abs()");
  }
  static void run(const Tensor& x, const Tensor& out) {
    map_unary(x.is_complex() ? UnaryFn::AbsComplex : UnaryFn::Abs, x, out);
  }
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) { return {g * sgn(x)}; }
};

struct Neg : SameUnary<"neg", UnaryFn::Neg> {
  static Spec check(const Tensor& x) {
    check_dtype(x.dtype() != DType::Bool, name,
                "a bool tensor has no negative; use logical_not() or ~");
    return SameUnary::check(x);
  }
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&) { return {neg(g)}; }
};

struct Positive : Named<"positive"> {
  static Tensor call(const Tensor& x) {
    check_dtype(x.dtype() != DType::Bool, name, "the operator + is not defined for bool tensors");
    return x;
  }
};

struct Sign : SameUnary<"sign", UnaryFn::Sign>, ZeroGrad {
  static Spec check(const Tensor& x) {
    rush::check(!x.is_complex(), ErrorKind::DType, name, "complex numbers have no sign; use sgn()");
    return SameUnary::check(x);
  }
};

struct Sgn : SameUnary<"sgn", UnaryFn::Sgn> {
  static constexpr uint32_t needs[] = {in(0)};
  // What of g turns z on the circle remains, over |z|; at zero nothing does.
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& z) {
    if (!z.is_complex()) return {zeros_like(g)};
    const Tensor s = sgn(z), r = abs(z);
    return {zero_where(eq(r, wrap_number(0)), (g - s * real(g * conj(s))) / r)};
  }
};

// x^2 as pow has it: the square of a bool is an integer.
struct Square : Named<"square"> {
  static constexpr bool in_place_safe = true;
  static Spec check(const Tensor& x) {
    const DType t = x.dtype() == DType::Bool ? DType::Int64 : x.dtype();
    require_kernel<UnaryFn::Square>(name, t);
    return like(x, t);
  }
  static void run(const Tensor& x, const Tensor& out) {
    map_unary(UnaryFn::Square, x, out, {},
              compute_type(x.dtype() == DType::Bool ? DType::Int64 : x.dtype()));
  }
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) { return {g * (conj(x) * 2)}; }
};

struct Reciprocal : FloatUnary<"reciprocal", UnaryFn::Reciprocal> {
  static constexpr uint32_t needs[] = {kOut};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&) {
    return {neg(g * conj(square(c.out())))};
  }
};

struct Sqrt : FloatUnary<"sqrt", UnaryFn::Sqrt> {
  static constexpr uint32_t needs[] = {kOut};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&) {
    return {g / (conj(c.out()) * 2)};
  }
};

struct Rsqrt : FloatUnary<"rsqrt", UnaryFn::Rsqrt> {
  static constexpr uint32_t needs[] = {kOut};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&) {
    return {g * (pow(conj(c.out()), wrap_number(3)) * -0.5)};
  }
};

struct Exp : FloatUnary<"exp", UnaryFn::Exp> {
  static constexpr uint32_t needs[] = {kOut};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&) {
    return {multiply_last(g, conj(c.out()))};
  }
  static Tensor jvp(const Jvp& j, const Tensor&) { return j.tangent(0) * j.out(); }
};

struct Exp2 : FloatUnary<"exp2", UnaryFn::Exp2> {
  static constexpr uint32_t needs[] = {kOut};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&) {
    return {g * (conj(c.out()) * kLn2)};
  }
};

struct Expm1 : FloatUnary<"expm1", UnaryFn::Expm1> {
  static constexpr uint32_t needs[] = {kOut};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&) {
    return {g * (conj(c.out()) + 1)};
  }
};

struct Log : FloatUnary<"log", UnaryFn::Log> {
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) { return {g / conj(x)}; }
};

struct Log2 : FloatUnary<"log2", UnaryFn::Log2> {
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) { return {g / (conj(x) * kLn2)}; }
};

struct Log10 : FloatUnary<"log10", UnaryFn::Log10> {
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) {
    return {g / (conj(x) * kLn10)};
  }
};

struct Log1p : FloatUnary<"log1p", UnaryFn::Log1p> {
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) { return {g / conj(x + 1)}; }
};

struct Sigmoid : FloatUnary<"sigmoid", UnaryFn::Sigmoid> {
  static constexpr uint32_t needs[] = {kOut};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&) {
    return {sigmoid_backward(g, c.out())};
  }
};

struct SigmoidBackward : FusedBackward<"sigmoid_backward", BinaryFn::SigmoidBackward> {
  static constexpr uint32_t needs[] = {in(1), in(0) | in(1)};
  static Grads grad(const Ctx& c, const Tensor& h, const Tensor& g, const Tensor& y) {
    return {c.wants(0) ? sigmoid_backward(h, conj(y)) : Tensor(),
            c.wants(1) ? conj(h) * g * (1 - conj(y) * 2) : Tensor()};
  }
};

struct Floor : SameUnary<"floor", UnaryFn::Floor>, ZeroGrad {};
struct Ceil : SameUnary<"ceil", UnaryFn::Ceil>, ZeroGrad {};
struct Trunc : SameUnary<"trunc", UnaryFn::Trunc>, ZeroGrad {};

struct Round : Named<"round"> {
  static constexpr bool in_place_safe = true;
  static Spec check(const Tensor& x, int64_t decimals) {
    if (decimals == 0)
      require_kernel<UnaryFn::Round>(name, x.dtype());
    else
      require_kernel<UnaryFn::RoundDecimals>(name, x.dtype());
    return like(x);
  }
  static void run(const Tensor& x, int64_t decimals, const Tensor& out) {
    if (decimals == 0) return map_unary(UnaryFn::Round, x, out);
    map_unary(UnaryFn::RoundDecimals, x, out,
              {std::pow(10.0, std::abs(double(decimals))), decimals < 0});
  }
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&, int64_t) { return {zeros_like(g)}; }
};

struct Frac : SameUnary<"frac", UnaryFn::Frac> {
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&) { return {g}; }
};

struct NanToNum : Named<"nan_to_num"> {
  static constexpr bool in_place_safe = true;
  using Number = std::optional<double>;
  static Spec check(const Tensor& x, Number, Number, Number) { return like(x); }
  static double largest(DType t) {
    switch (to_real(t)) {
      case DType::Float16:
        return 65504.0;
      case DType::BFloat16:
        return 0x1.fep127;
      case DType::Float32:
        return std::numeric_limits<float>::max();
      default:
        return std::numeric_limits<double>::max();
    }
  }
  static void run(const Tensor& x, Number nan, Number posinf, Number neginf, const Tensor& out) {
    if (!is_differentiable(x.dtype())) {
      if (!out.is_same(x)) copy_data(out, x);
      return;
    }
    const double big = largest(x.dtype());
    map_unary(UnaryFn::NanToNum, x, out,
              {nan.value_or(0.0), posinf.value_or(big), neginf.value_or(-big)});
  }
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x, Number, Number, Number) {
    if (!x.is_complex()) return {keep_where(isfinite(x), g)};
    // Each part has its own gradient.
    return {make_complex(keep_where(isfinite(real(x)), real(g)),
                         keep_where(isfinite(imag(x)), imag(g)))};
  }
};

struct Frexp : Named<"frexp"> {
  static constexpr bool refuses_overlap = true;
  static constexpr uint32_t non_differentiable = 1u << 1;
  static std::array<Spec, 2> check(const Tensor& x) {
    check_dtype(x.is_floating(), name,
                "only floating tensors have mantissa and exponent, this one is ", x.dtype());
    return {like(x), like(x, DType::Int32)};
  }
  static void run(const Tensor& x, const Tensor& mantissa, const Tensor& exponent) {
    map_unary(UnaryFn::FrexpExponent, x, exponent);
    map_unary(UnaryFn::FrexpMantissa, x, mantissa);
  }
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, GradSpan g, const Tensor& x) {
    const auto [mantissa, exponent] = frexp(detach(x));
    return {g[0] * pow(Scalar(2.0), neg(exponent))};
  }
};

}  // namespace rush

#include "ops/unary.inc"
