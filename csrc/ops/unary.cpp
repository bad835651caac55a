// Pointwise ops of one tensor. Gradients stand beside their op; formulas of values in functors/unary.h.
#include "ops/data.h"
#include "ops/pointwise.h"

namespace rush {

struct Exp : FloatUnary<UnaryFn::Exp> {
  static constexpr const char* name = "exp";
  static constexpr uint32_t needs[] = {kOut};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&) { return {g * conj(c.out())}; }
  static Tensor jvp(const Jvp& j, const Tensor&) { return j.tangent(0) * j.out(); }
};

struct Neg : SameUnary<UnaryFn::Neg> {
  static constexpr const char* name = "neg";
  static Spec check(const Tensor& x) {
    check_dtype(x.dtype() != DType::Bool, name, "a bool tensor has no negative; use logical_not() or ~");
    return like(x);
  }
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&) { return {neg(g)}; }
};

struct Conj {
  static constexpr const char* name = "conj";
  static Tensor call(const Tensor& x) { return x.is_complex() ? conj_physical(x) : x; }
};

struct ConjPhysical {
  static constexpr const char* name = "conj_physical";
  static constexpr bool in_place_safe = true;
  static Spec check(const Tensor& x) { return like(x); }
  static void run(const Tensor& x, const Tensor& out) {
    if (x.is_complex()) map_unary(UnaryFn::Conj, x, out);
    else copy_data(out, x);
  }
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&) { return {conj(g)}; }
};

struct Sigmoid : FloatUnary<UnaryFn::Sigmoid> {
  static constexpr const char* name = "sigmoid";
  static constexpr uint32_t needs[] = {kOut};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&) {
    const Tensor y = c.out();
    return {g * conj(y * (1 - y))};
  }
};

}  // namespace rush

#include "ops/unary.inc"
