// Pointwise arithmetic of two tensors. The engine sums gradients over broadcast dimensions; formulas here need not.
#include "ops/pointwise.h"

namespace rush {
namespace {

// alpha must be representable in the result: a float cannot scale integers.
void check_alpha(const char* op, DType result, const Scalar& alpha) {
  check(!(alpha.is_floating() && (is_integral(result) || result == DType::Bool)), ErrorKind::Runtime, op,
        "alpha is a float, but the result is ", result, ": an integer alpha is needed");
  check(!(alpha.is_complex() && !is_complex(result)), ErrorKind::Runtime, op, "alpha is complex, but the result is ", result);
  check(!alpha.is_bool() || result == DType::Bool, ErrorKind::Runtime, op, "a bool alpha is only for bool results, this one is ", result);
}

Tensor scaled(const Tensor& g, const Scalar& s) { return s.equals(1) ? g : g * s; }
Scalar conj(const Scalar& s) {
  if (!s.is_complex()) return s;
  const auto z = s.to<complex<double>>();
  return Scalar(complex<double>{z.re, -z.im});
}

}  // namespace

struct Add {
  static constexpr const char* name = "add";
  static constexpr bool in_place_safe = true;
  static Spec check(const Tensor& a, const Tensor& b, const Scalar& alpha) {
    const DType t = result_type(a, b);
    if (!alpha.is_integer()) [[unlikely]] check_alpha(name, t, alpha);
    return pointwise(name, a, b, t);
  }
  static void run(const Tensor& a, const Tensor& b, const Scalar& alpha, const Tensor& out) {
    const DType compute = compute_type(result_type(a, b));
    if (alpha.equals(1)) [[likely]] map_binary(BinaryFn::Add, a, b, out, {}, compute);
    else map_binary(BinaryFn::AddAlpha, a, b, out, {alpha}, compute);
  }
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&, const Tensor&, const Scalar& alpha) { return {g, scaled(g, conj(alpha))}; }
  static Tensor jvp(const Jvp& j, const Tensor&, const Tensor&, const Scalar& alpha) {
    const Tensor &ta = j.tangent(0), &tb = j.tangent(1);
    if (!tb.defined()) return expand(ta, j.out().sizes());
    return ta.defined() ? add(ta, tb, alpha) : expand(scaled(tb, alpha), j.out().sizes());
  }
};

struct Sub {
  static constexpr const char* name = "sub";
  static constexpr bool in_place_safe = true;
  static Spec check(const Tensor& a, const Tensor& b, const Scalar& alpha) {
    const DType t = result_type(a, b);
    rush::check(a.dtype() != DType::Bool || b.dtype() != DType::Bool, ErrorKind::Runtime, name,
          "bool tensors have no difference; use logical_xor() or ^");
    if (!alpha.is_integer()) [[unlikely]] check_alpha(name, t, alpha);
    return pointwise(name, a, b, t);
  }
  static void run(const Tensor& a, const Tensor& b, const Scalar& alpha, const Tensor& out) {
    const DType compute = compute_type(result_type(a, b));
    if (alpha.equals(1)) [[likely]] map_binary(BinaryFn::Sub, a, b, out, {}, compute);
    else map_binary(BinaryFn::SubAlpha, a, b, out, {alpha}, compute);
  }
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, const Tensor&, const Scalar& alpha) {
    return {g, c.wants(1) ? neg(scaled(g, conj(alpha))) : Tensor()};
  }
};

struct Mul : SameBinary<BinaryFn::Mul> {
  static constexpr const char* name = "mul";
  static Spec check(const Tensor& a, const Tensor& b) { return check_as(name, a, b); }
  static constexpr uint32_t needs[] = {in(1), in(0)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& a, const Tensor& b) {
    return {c.wants(0) ? g * rush::conj(b) : Tensor(), c.wants(1) ? g * rush::conj(a) : Tensor()};
  }
};

struct Div : FloatBinary<BinaryFn::Div> {
  static constexpr const char* name = "div";
  static Spec check(const Tensor& a, const Tensor& b) { return check_as(name, a, b); }
  static constexpr uint32_t needs[] = {in(1), in(0) | in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& a, const Tensor& b) {
    const Tensor over = g / rush::conj(b);
    return {over, c.wants(1) ? neg(over * rush::conj(a / b)) : Tensor()};
  }
};

}  // namespace rush

#include "ops/binary.inc"
