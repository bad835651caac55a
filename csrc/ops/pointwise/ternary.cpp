// Pointwise ops of three tensors: where, clamp, lerp, addcmul, addcdiv.
#include <cmath>
#include <limits>

#include "ops/framework/data.h"
#include "ops/framework/fits.h"
#include "ops/pointwise/numbers.h"
#include "ops/pointwise/pointwise.h"

namespace rush {

struct Where : Named<"where"> {
  static constexpr bool takes_float8 = true;
  static constexpr bool in_place_safe = true;
  static Spec check(const Tensor& condition, const Tensor& a, const Tensor& b) {
    check_dtype(condition.dtype() == DType::Bool || condition.dtype() == DType::UInt8, name,
                "the condition must be a bool tensor, it is ", condition.dtype());
    const DType t = result_type(a, b);
    for (const Tensor* x : {&a, &b})
      if (x->is_wrapped_number()) check_fill(name, t, x->item());
    return pointwise(name, condition, a, b, t);
  }
  static void run(const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& out) {
    map_ternary(TernaryFn::Where, condition, a, b, out, {}, compute_type(result_type(a, b)));
  }
  static constexpr uint32_t needs[] = {0, in(0), in(0)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& condition, const Tensor&,
                    const Tensor&) {
    return {Tensor(), c.wants(1) ? keep_where(condition, g) : Tensor(),
            c.wants(2) ? zero_where(condition, g) : Tensor()};
  }
};

struct WhereScalar : Named<"where"> {
  static Tensor call(const Tensor& condition, const Scalar& a, const Tensor& b) {
    return where(condition, wrap_number(a), b);
  }
};

struct Clamp : Named<"clamp"> {
  static constexpr bool in_place_safe = true;
  using Bound = std::optional<Scalar>;

  // The bounds take part in promotion as numbers do: an integer tensor clamped by floats becomes
  // one of floats.
  static DType type_of(const Tensor& x, const Bound& lo, const Bound& hi) {
    const auto below = [&](const Bound& b) { return !b || b->category() <= category(x.dtype()); };
    if (below(lo) && below(hi)) [[likely]]
      return x.dtype();
    ResultType r;
    r.add(x);
    if (lo) r.add(*lo);
    if (hi) r.add(*hi);
    return r.get();
  }
  static void check_bound(const Bound& b, DType t, const char* which) {
    if (!b || !is_integral(t) || t == DType::Int64) return;
    const int64_t v = b->to_int();
    const int bits = int(8 * element_size(t)) - int(info(t).is_signed);
    const int64_t top = int64_t(1) << bits;
    rush::check(v < top && v >= (info(t).is_signed ? -top : 0), ErrorKind::Runtime, name, which,
                " is ", v, ", which does not fit the dtype ", t);
  }
  static Spec check(const Tensor& x, const Bound& lo, const Bound& hi) {
    rush::check(lo || hi, ErrorKind::Runtime, name, "at least one of min and max must be given");
    const DType t = type_of(x, lo, hi);
    require_kernel<UnaryFn::Clamp>(name, t);
    check_bound(lo, t, "min");
    check_bound(hi, t, "max");
    return like(x, t);
  }
  static bool is_nan(const Bound& b) { return b && b->is_floating() && std::isnan(b->to_double()); }
  static void run(const Tensor& x, const Bound& lo, const Bound& hi, const Tensor& out) {
    const DType compute = compute_type(type_of(x, lo, hi));
    if (is_nan(lo) || is_nan(hi)) [[unlikely]]
      fill_data(out, std::numeric_limits<double>::quiet_NaN());
    else if (!lo)
      map_unary(UnaryFn::ClampMax, x, out, {*hi}, compute);
    else if (!hi)
      map_unary(UnaryFn::ClampMin, x, out, {*lo}, compute);
    else
      map_unary(UnaryFn::Clamp, x, out, {*lo, *hi}, compute);
  }
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x, const Bound& lo,
                    const Bound& hi) {
    const Tensor above = lo ? ge(x, wrap_number(*lo)) : Tensor(),
                 below = hi ? le(x, wrap_number(*hi)) : Tensor();
    return {keep_where(lo && hi ? logical_and(above, below) : lo ? above : below, g)};
  }
};

struct ClampTensor : Named<"clamp"> {
  static constexpr bool in_place_safe = true;
  static DType type_of(const Tensor& x, const Tensor& lo, const Tensor& hi) {
    if (!lo.defined()) return result_type(x, hi);
    return hi.defined() ? result_type(x, lo, hi) : result_type(x, lo);
  }
  static Spec check(const Tensor& x, const Tensor& lo, const Tensor& hi) {
    rush::check(lo.defined() || hi.defined(), ErrorKind::Runtime, name,
                "at least one of min and max must be given");
    const DType t = type_of(x, lo, hi);
    if (lo.defined() && hi.defined()) {
      require_kernel<TernaryFn::ClampTensor>(name, t);
      return pointwise(name, x, lo, hi, t);
    }
    require_kernel<BinaryFn::Maximum>(name, t);  // and Minimum takes the same types
    return pointwise(name, x, lo.defined() ? lo : hi, t);
  }
  static void run(const Tensor& x, const Tensor& lo, const Tensor& hi, const Tensor& out) {
    const DType compute = compute_type(type_of(x, lo, hi));
    if (!lo.defined())
      map_binary(BinaryFn::Minimum, x, hi, out, {}, compute);
    else if (!hi.defined())
      map_binary(BinaryFn::Maximum, x, lo, out, {}, compute);
    else
      map_ternary(TernaryFn::ClampTensor, x, lo, hi, out, {}, compute);
  }
  static constexpr uint32_t needs[] = {in(0) | in(1) | in(2), in(0) | in(1) | in(2),
                                       in(0) | in(1) | in(2)};
  // Each place passes its gradient to what it shows: x inside the bounds, else a bound; max wins
  // over min.
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& x, const Tensor& lo,
                    const Tensor& hi) {
    Grads grads(3);
    if (c.wants(0)) {
      const Tensor above = lo.defined() ? ge(x, lo) : Tensor(),
                   below = hi.defined() ? le(x, hi) : Tensor();
      grads[0] = keep_where(!lo.defined()   ? below
                            : !hi.defined() ? above
                                            : logical_and(above, below),
                            g);
    }
    if (c.wants(1))
      grads[1] = keep_where(hi.defined() ? logical_and(lt(lo, hi), lt(x, lo)) : lt(x, lo), g);
    if (c.wants(2))
      grads[2] = keep_where(lo.defined() ? logical_or(lt(hi, lo), gt(x, hi)) : gt(x, hi), g);
    return grads;
  }
};

struct ClampMin : Named<"clamp_min"> {
  static constexpr bool in_place_safe = true;
  static Tensor call(const Tensor& x, const Scalar& lo) {
    return clamp(x, lo, std::optional<Scalar>());
  }
};
struct ClampMinTensor : Named<"clamp_min"> {
  static constexpr bool in_place_safe = true;
  static Tensor call(const Tensor& x, const Tensor& lo) { return clamp(x, lo, Tensor()); }
};
struct ClampMax : Named<"clamp_max"> {
  static constexpr bool in_place_safe = true;
  static Tensor call(const Tensor& x, const Scalar& hi) {
    return clamp(x, std::optional<Scalar>(), hi);
  }
};
struct ClampMaxTensor : Named<"clamp_max"> {
  static constexpr bool in_place_safe = true;
  static Tensor call(const Tensor& x, const Tensor& hi) { return clamp(x, Tensor(), hi); }
};

struct Lerp : Named<"lerp"> {
  static constexpr bool in_place_safe = true;
  static Spec check(const Tensor& x, const Tensor& end, const Tensor& weight) {
    const DType t = x.dtype();
    require_kernel<TernaryFn::Lerp>(name, t);
    check_dtype(end.dtype() == t, name, "end must have the dtype of self, ", t, ", it has ",
                end.dtype());
    check_dtype(weight.dim() == 0 || weight.dtype() == t, name,
                "weight must have the dtype of self, ", t, ", it has ", weight.dtype());
    check_dtype(!weight.is_complex() || is_complex(t), name,
                "a complex weight needs complex tensors, these are ", t);
    return pointwise(name, x, end, weight, t);
  }
  static void run(const Tensor& x, const Tensor& end, const Tensor& weight, const Tensor& out) {
    map_ternary(TernaryFn::Lerp, x, end, weight, out, {}, compute_type(x.dtype()));
  }
  static constexpr uint32_t needs[] = {in(2), in(2), in(0) | in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& x, const Tensor& end,
                    const Tensor& weight) {
    const auto rest = [](const Tensor& w) { return 1 - w; };
    return {c.wants(0) ? g * conj(of_number(weight, rest)) : Tensor(),
            c.wants(1) ? g * conj(weight) : Tensor(), c.wants(2) ? g * conj(end - x) : Tensor()};
  }
};

namespace {

// The type of x + value * f(a, b), and the loop.
template <TernaryFn fn>
struct AddedTo {
  static constexpr bool in_place_safe = true;
  static Spec check_as(const char* op, const Tensor& x, const Tensor& a, const Tensor& b) {
    const DType t = result_type(x, a, b);
    require_kernel<fn>(op, t);
    return pointwise(op, x, a, b, t);
  }
  static void run(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value,
                  const Tensor& out) {
    map_ternary(fn, x, a, b, out, {value}, compute_type(result_type(x, a, b)));
  }
};

}  // namespace

struct Addcmul : Named<"addcmul">, AddedTo<TernaryFn::Addcmul> {
  static Spec check(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar&) {
    return check_as(name, x, a, b);
  }
  static constexpr uint32_t needs[] = {0, in(2), in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, const Tensor& a, const Tensor& b,
                    const Scalar& value) {
    return {g, c.wants(1) ? g * conj(b * value) : Tensor(),
            c.wants(2) ? g * conj(a * value) : Tensor()};
  }
};

struct Addcdiv : Named<"addcdiv">, AddedTo<TernaryFn::Addcdiv> {
  static Spec check(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar&) {
    check_dtype(is_differentiable(a.dtype()) || is_differentiable(b.dtype()), name,
                "the division of integers is not supported (tensor1 is ", a.dtype(),
                ", tensor2 is ", b.dtype(), "); convert one of them to a floating type");
    return check_as(name, x, a, b);
  }
  static constexpr uint32_t needs[] = {0, in(2), in(1) | in(2)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, const Tensor& a, const Tensor& b,
                    const Scalar& value) {
    return {g, c.wants(1) ? g * conj(value / b) : Tensor(),
            c.wants(2) ? neg(g * conj(value * a / square(b))) : Tensor()};
  }
};

namespace {

// addcmul_(1 - beta, grad, grad), as programs wrote it before value had a name.
template <OpName N, class Op>
struct ValueFirst : Named<N> {
  static constexpr bool in_place_safe = true;
  static Spec check(const Tensor& x, const Scalar& value, const Tensor& a, const Tensor& b) {
    return Op::check(x, a, b, value);
  }
  static void run(const Tensor& x, const Scalar& value, const Tensor& a, const Tensor& b,
                  const Tensor& out) {
    Op::run(x, a, b, value, out);
  }
  static constexpr const auto& needs = Op::needs;
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& x, const Scalar& value,
                    const Tensor& a, const Tensor& b) {
    return Op::grad(c, g, x, a, b, value);
  }
};

}  // namespace

struct AddcmulValueFirst : ValueFirst<"addcmul", Addcmul> {};
struct AddcdivValueFirst : ValueFirst<"addcdiv", Addcdiv> {};

}  // namespace rush

#include "ops/ternary.inc"
