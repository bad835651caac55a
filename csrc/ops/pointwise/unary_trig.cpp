// Trigonometric and hyperbolic functions.
#include "ops/pointwise/pointwise.h"

namespace rush {

struct Sin : FloatUnary<"sin", UnaryFn::Sin> {
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) { return {g * conj(cos(x))}; }
};

struct Cos : FloatUnary<"cos", UnaryFn::Cos> {
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) {
    return {g * neg(conj(sin(x)))};
  }
};

struct Tan : FloatUnary<"tan", UnaryFn::Tan> {
  static constexpr uint32_t needs[] = {kOut};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&) {
    return {g * conj(square(c.out()) + 1)};
  }
};

struct Asin : FloatUnary<"asin", UnaryFn::Asin> {
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) {
    return {g * conj(rsqrt(1 - square(x)))};
  }
};

struct Acos : FloatUnary<"acos", UnaryFn::Acos> {
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) {
    return {g * neg(conj(rsqrt(1 - square(x))))};
  }
};

struct Atan : FloatUnary<"atan", UnaryFn::Atan> {
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) {
    return {g / conj(square(x) + 1)};
  }
};

struct Sinh : FloatUnary<"sinh", UnaryFn::Sinh> {
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) { return {g * conj(cosh(x))}; }
};

struct Cosh : FloatUnary<"cosh", UnaryFn::Cosh> {
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) { return {g * conj(sinh(x))}; }
};

struct Tanh : FloatUnary<"tanh", UnaryFn::Tanh> {
  static constexpr uint32_t needs[] = {kOut};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&) {
    return {tanh_backward(g, c.out())};
  }
};

struct TanhBackward : FusedBackward<"tanh_backward", BinaryFn::TanhBackward> {
  static constexpr uint32_t needs[] = {in(1), in(0) | in(1)};
  static Grads grad(const Ctx& c, const Tensor& h, const Tensor& g, const Tensor& y) {
    return {c.wants(0) ? tanh_backward(h, conj(y)) : Tensor(),
            c.wants(1) ? conj(h) * g * (conj(y) * -2) : Tensor()};
  }
};

struct Asinh : FloatUnary<"asinh", UnaryFn::Asinh> {
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) {
    return {g * conj(rsqrt(square(x) + 1))};
  }
};

struct Acosh : FloatUnary<"acosh", UnaryFn::Acosh> {
  static constexpr uint32_t needs[] = {in(0)};
  // One root of x^2 - 1 would have the wrong sign in the left half of the complex plane.
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) {
    return {g * conj(x.is_complex() ? rsqrt(x - 1) * rsqrt(x + 1) : rsqrt(square(x) - 1))};
  }
};

struct Atanh : FloatUnary<"atanh", UnaryFn::Atanh> {
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) {
    return {g / conj(1 - square(x))};
  }
};

struct Sinc : FloatUnary<"sinc", UnaryFn::Sinc> {
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) {
    const Tensor p = x * 3.14159265358979323846;
    const Tensor slope = (cos(p) - sinc(x)) / x;
    return {zero_where(eq(x, wrap_number(0)), g * conj(slope))};
  }
};

struct Deg2rad : FloatUnary<"deg2rad", UnaryFn::Deg2rad> {
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&) { return {deg2rad(g)}; }
};

struct Rad2deg : FloatUnary<"rad2deg", UnaryFn::Rad2deg> {
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&) { return {rad2deg(g)}; }
};

}  // namespace rush

#include "ops/unary_trig.inc"
