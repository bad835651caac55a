// Special functions of the namespace `special`, and the incomplete gamma functions.
#include "device/pointwise.h"
#include "ops/framework/data.h"
#include "ops/framework/snapshot_node.h"
#include "ops/pointwise/numbers.h"
#include "ops/pointwise/pointwise.h"
#include "ops/special_ops.h"

namespace rush {
namespace {

DType checked_type(const char* op, DType t) {
  const DType out = float_type(t);
  check(is_floating(out), ErrorKind::DType, op, "not implemented for ", t, " tensors");
  return out;
}

// Calls f with contiguous tensors of the type that is computed in.
template <class F>
void written(const Tensor& out, F&& f) {
  const DType wide = compute_type(out.dtype());
  if (out.is_contiguous() && wide == out.dtype()) return f(out, wide);
  const Tensor own = make_tensor(out.sizes(), wide, out.device());
  f(own, wide);
  copy_data(out, own);
}
Tensor readable(const Tensor& x, const Tensor& out, DType wide) {
  const NoGradGuard no_grad;
  const Tensor own = x.dtype() == wide ? x : convert_data(x, wide);
  return contiguous_data(expand(placed(own, out.device()), out.sizes()));
}

void compute(SpecialFn fn, const Tensor& x, const Tensor& out, double first = 0,
             double second = 0) {
  written(out, [&](const Tensor& to, DType wide) {
    const Tensor from = readable(x, out, wide);
    pointwise_loops(to).special(fn, from, from, to, first, second);
  });
}
void compute(SpecialFn fn, const Tensor& x, const Tensor& y, const Tensor& out, double first = 0,
             double second = 0) {
  written(out, [&](const Tensor& to, DType wide) {
    const Tensor a = readable(x, out, wide), b = readable(y, out, wide);
    pointwise_loops(to).special(fn, a, b, to, first, second);
  });
}

template <OpName N, SpecialFn fn>
struct SpecialUnary {
  static constexpr const char* name = N.text;
  static constexpr bool refuses_overlap = true;
  static Spec check(const Tensor& x) { return like(x, checked_type(name, x.dtype())); }
  static constexpr bool any_device = true;
  static void run(const Tensor& x, const Tensor& out) { compute(fn, x, out); }
};

void check_any_tensor(const char* op, const Tensor& a, const Tensor& b) {
  check(!a.is_wrapped_number() || !b.is_wrapped_number(), ErrorKind::ArgumentType, op,
        "at least one argument must be a tensor, got two numbers");
}

template <OpName N, SpecialFn fn>
struct SpecialBinary {
  static constexpr const char* name = N.text;
  static constexpr bool refuses_overlap = true;
  static Spec check(const Tensor& a, const Tensor& b) {
    check_any_tensor(name, a, b);
    return pointwise(name, a, b, checked_type(name, result_type(a, b)));
  }
  static constexpr bool any_device = true;
  static void run(const Tensor& a, const Tensor& b, const Tensor& out) { compute(fn, a, b, out); }
};

constexpr double kTwoOverSqrtPi = 1.12837916709551257390, kSqrtTwoPi = 2.50662827463100050242;
constexpr double kRootHalf = 0.70710678118654752440, kSqrtTwoOverPi = 0.79788456080286535588;

Tensor gauss(const Tensor& x) { return exp(square(x) * -0.5); }

}  // namespace

struct SpecialErfcx : SpecialUnary<"special.erfcx", SpecialFn::Erfcx> {
  static constexpr uint32_t needs[] = {in(0) | kOut};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& x) {
    return {g * (x * c.out() * 2 - kTwoOverSqrtPi)};
  }
};

struct SpecialNdtr : SpecialUnary<"special.ndtr", SpecialFn::Ndtr> {
  static constexpr bool refuses_overlap = false;
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) {
    return {g * (gauss(x) * (1 / kSqrtTwoPi))};
  }
};

// PyTorch keeps the scaled input: programs may write to x.
template <>
auto op::make_node<SpecialNdtr>(const Tensor& x) -> Ref<OpNode<SpecialNdtr, Tensor>> {
  return make_snapshot_node<SpecialNdtr>(x);
}

struct SpecialLogNdtr : SpecialUnary<"special.log_ndtr", SpecialFn::LogNdtr> {
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) {
    return {g * (kSqrtTwoOverPi / _special_erfcx(x * -kRootHalf))};
  }
};

struct SpecialNdtri : SpecialUnary<"special.ndtri", SpecialFn::Ndtri> {
  static constexpr uint32_t needs[] = {kOut};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&) {
    return {g * (exp(square(c.out()) * 0.5) * kSqrtTwoPi)};
  }
};

struct SpecialEntr : SpecialUnary<"special.entr", SpecialFn::Entr> {
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) {
    return {g * where(isnan(x), x, -log(x) - 1)};
  }
};

namespace {

// y / x, which tends to 1/2 at 0. The divisor there is 1, so that second derivatives are finite.
Tensor half_at_zero(const Tensor& y, const Tensor& x) {
  const Tensor zero = eq(x, wrap_number(0));
  return where(zero, Scalar(0.5), y / masked_fill(x, zero, wrap_number(1)));
}

}  // namespace

struct ModifiedBesselI1 : SpecialUnary<"special.i1", SpecialFn::I1> {
  static constexpr uint32_t needs[] = {in(0)};
  // i1(x) / x tends to 1/2.
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x) {
    return {g * (i0(x) - half_at_zero(_special_i1(x), x))};
  }
};

struct SpecialAiryAi : SpecialUnary<"special.airy_ai", SpecialFn::AiryAi> {};

namespace {

// The kinds of the functor.
enum { kJ, kY, kK, kKScaled, kIScaled, kSpherical };
Tensor bessel(const Tensor& x, int64_t kind, int64_t order) {
  return _special_bessel(x, kind, order);
}

}  // namespace

struct SpecialBessel {
  static constexpr const char* name = "special.bessel";
  static constexpr bool refuses_overlap = true;
  static Spec check(const Tensor& x, int64_t kind, int64_t order) {
    rush::check(
        kind >= kJ && kind <= kSpherical && (order == 0 || (order == 1 && kind != kSpherical)),
        ErrorKind::Argument, name, "there is no kind ", kind, " of order ", order);
    return like(x, checked_type(name, x.dtype()));
  }
  static constexpr bool any_device = true;
  static void run(const Tensor& x, int64_t kind, int64_t order, const Tensor& out) {
    compute(SpecialFn::Bessel, x, out, double(kind), double(order));
  }
  static constexpr uint32_t needs[] = {in(0) | kOut};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& x, int64_t kind, int64_t order) {
    const Tensor& y = c.out();
    if (kind == kSpherical) {  // (cos(x) - sin(x) / x) / x, by its series near 0
      const Tensor z = square(x), small = lt(abs(x), wrap_number(0.5));
      const Tensor series =
          x * (((((z * (1.0 / 518918400) - 1.0 / 3991680) * z + 1.0 / 45360) * z - 1.0 / 840) * z +
                1.0 / 30) *
                   z -
               1.0 / 3);
      return {g * where(small, series, (cos(x) - y) / x)};
    }
    const Tensor other = bessel(x, kind, 1 - order);
    // f / x tends to 1/2 (J, and I scaled) at 0
    const auto over_x = [&] { return kind == kJ || kind == kIScaled ? half_at_zero(y, x) : y / x; };
    if (kind == kJ || kind == kY) return {g * (order == 0 ? neg(other) : other - over_x())};
    if (kind == kIScaled)
      return {g * (order == 0 ? other - sign(x) * y : other - sign(x) * y - over_x())};
    const Tensor plain = order == 0 ? neg(other) : neg(other) - over_x();
    return {g * (kind == kKScaled ? plain + y : plain)};
  }
};

struct SpecialXlog1py : SpecialBinary<"special.xlog1py", SpecialFn::Xlog1py> {
  static constexpr uint32_t needs[] = {in(0) | in(1), in(0) | in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& x, const Tensor& y) {
    Tensor for_x;
    if (c.wants(0))
      for_x =
          masked_fill(g * of_number(y, [](const Tensor& t) { return log1p(t); }),
                      logical_and(eq(x, wrap_number(0)), le(y, wrap_number(-1))), wrap_number(0));
    return {for_x, c.wants(1) ? g * (x / (y + 1)) : Tensor()};
  }
};

struct SpecialZeta : SpecialBinary<"special.zeta", SpecialFn::Zeta> {
  static constexpr uint32_t needs[] = {0, in(0) | in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& s, const Tensor& q) {
    rush::check(!c.wants(0), ErrorKind::NotImplemented, "special.zeta",
                "there is no gradient with respect to the first argument; detach() it");
    const Tensor next = of_number(s, [](const Tensor& t) { return t + 1; });
    return {Tensor(), g * (neg(s) * _special_zeta(next, q))};
  }
};

struct SpecialPolynomial {
  static constexpr const char* name = "special.polynomial";
  static constexpr bool refuses_overlap = true;
  static Spec check(const Tensor& x, const Tensor& n, int64_t, bool) {
    check_any_tensor(name, x, n);
    return pointwise(name, x, n, checked_type(name, result_type(x, n)));
  }
  static constexpr bool any_device = true;
  static void run(const Tensor& x, const Tensor& n, int64_t kind, bool shifted, const Tensor& out) {
    compute(SpecialFn::Polynomial, x, n, out, double(kind), shifted ? 1.0 : 0.0);
  }
};

namespace {

// x^(a - 1) e^-x / gamma(a)
Tensor gamma_density(const Tensor& a, const Tensor& x) {
  return exp(xlogy(a - 1, x) - x - lgamma(a));
}
void refuse_order(const Ctx& c, const char* op) {
  check(!c.wants(0), ErrorKind::NotImplemented, op,
        "there is no gradient with respect to the first argument; detach() it");
}

}  // namespace

struct Igamma : SpecialBinary<"igamma", SpecialFn::Igamma> {
  static constexpr uint32_t needs[] = {0, in(0) | in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& a, const Tensor& x) {
    refuse_order(c, name);
    return {Tensor(), g * gamma_density(a, x)};
  }
};

struct Igammac : SpecialBinary<"igammac", SpecialFn::Igammac> {
  static constexpr uint32_t needs[] = {0, in(0) | in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& a, const Tensor& x) {
    refuse_order(c, name);
    return {Tensor(), neg(g * gamma_density(a, x))};
  }
};

}  // namespace rush

#include "ops/special.inc"
