// Pointwise arithmetic of two tensors. The engine sums gradients over broadcast dimensions;
// formulas here need not.
#include <cmath>

#include "ops/framework/data.h"
#include "ops/framework/dying.h"
#include "ops/framework/fits.h"
#include "ops/pointwise/pointwise.h"

namespace rush {
namespace {

// alpha must be representable in the result: a float cannot scale integers.
void check_alpha(const char* op, DType result, const Scalar& alpha) {
  check(!(alpha.is_floating() && (is_integral(result) || result == DType::Bool)),
        ErrorKind::Runtime, op, "alpha is a float, but the result is ", result,
        ": an integer alpha is needed");
  check(!(alpha.is_complex() && !is_complex(result)), ErrorKind::Runtime, op,
        "alpha is complex, but the result is ", result);
  check(!alpha.is_bool() || result == DType::Bool, ErrorKind::Runtime, op,
        "a bool alpha is only for bool results, this one is ", result);
}

Tensor scaled(const Tensor& g, const Scalar& s) { return s.equals(1) ? g : g * s; }
Scalar conj(const Scalar& s) {
  if (!s.is_complex()) return s;
  const auto z = s.to<complex<double>>();
  return Scalar(complex<double>{z.re, -z.im});
}

// a + alpha b and a - alpha b. Nearly always alpha is 1.
template <BinaryFn plain, BinaryFn scaling>
struct SumWithAlpha {
  static constexpr bool in_place_safe = true;
  static Spec check_as(const char* op, const Tensor& a, const Tensor& b, const Scalar& alpha) {
    const DType t = result_type(a, b);
    require_kernel<plain>(op, t);
    if (!alpha.is_integer()) [[unlikely]]
      check_alpha(op, t, alpha);
    return pointwise(op, a, b, t);
  }
  static void run(const Tensor& a, const Tensor& b, const Scalar& alpha, const Tensor& out) {
    const DType compute = compute_type(result_type(a, b));
    if (alpha.equals(1)) [[likely]]
      map_binary(plain, a, b, out, {}, compute);
    else
      map_binary(scaling, a, b, out, {alpha}, compute);
  }
};

}  // namespace

struct Add : Named<"add">, SumWithAlpha<BinaryFn::Add, BinaryFn::AddAlpha> {
  static Spec check(const Tensor& a, const Tensor& b, const Scalar& alpha) {
    return check_as(name, a, b, alpha);
  }
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&, const Tensor&,
                    const Scalar& alpha) {
    return {g, scaled(g, conj(alpha))};
  }
  static Tensor jvp(const Jvp& j, const Tensor&, const Tensor&, const Scalar& alpha) {
    const Tensor &ta = j.tangent(0), &tb = j.tangent(1);
    if (!tb.defined()) return expand(ta, j.out().sizes());
    return ta.defined() ? add(ta, tb, alpha) : expand(scaled(tb, alpha), j.out().sizes());
  }
};

struct Sub : Named<"sub">, SumWithAlpha<BinaryFn::Sub, BinaryFn::SubAlpha> {
  static Spec check(const Tensor& a, const Tensor& b, const Scalar& alpha) {
    check_dtype(a.dtype() != DType::Bool && b.dtype() != DType::Bool, name,
                "bools have no difference (the operands are ", a.dtype(), " and ", b.dtype(),
                "); use logical_not() or ~ to invert a mask, logical_xor() or ^ to compare two");
    return check_as(name, a, b, alpha);
  }
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, const Tensor&,
                    const Scalar& alpha) {
    return {g, c.wants(1) ? neg(scaled(g, conj(alpha))) : Tensor()};
  }
};

namespace {

// add_(-lr, grad), as programs wrote it before alpha had a name.
template <OpName N, class Op>
struct AlphaFirst : Named<N> {
  static constexpr bool in_place_safe = true;
  static Spec check(const Tensor& a, const Scalar& alpha, const Tensor& b) {
    return Op::check(a, b, alpha);
  }
  static void run(const Tensor& a, const Scalar& alpha, const Tensor& b, const Tensor& out) {
    Op::run(a, b, alpha, out);
  }
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& a, const Scalar& alpha,
                    const Tensor& b) {
    return Op::grad(c, g, a, b, alpha);
  }
};

}  // namespace

struct AddAlphaFirst : AlphaFirst<"add", Add> {};
struct SubAlphaFirst : AlphaFirst<"sub", Sub> {};

struct Rsub : Named<"rsub"> {
  static Tensor call(const Tensor& a, const Tensor& b, const Scalar& alpha) {
    return sub(b, a, alpha);
  }
};

struct Mul : SameBinary<"mul", BinaryFn::Mul> {
  static constexpr uint32_t needs[] = {in(1), in(0)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& a, const Tensor& b) {
    Grads grads(2);
    if (c.wants(0)) grads[0] = c.wants(1) ? g * rush::conj(b) : multiply_last(g, rush::conj(b));
    if (c.wants(1)) grads[1] = multiply_last(g, rush::conj(a));
    return grads;
  }
};

Tensor multiply_last(const Tensor& g, const Tensor& factor) {
  // One reference is the engine's, which drops it after this.
  const bool dies = owns_memory(g) && g.is_contiguous();
  if (!dies || grad_enabled() || t_modes & (kIntercept | kDefer) || op::any_tangent(g, factor))
    return g * factor;
  const Spec product = Mul::check(g, factor);
  if (product.dtype != g.dtype() || !(product.sizes == g.sizes())) return g * factor;
  if (g.is_meta()) return g;
  const Tensor form = arranged_form(g);
  before_write_to(form.storage().get());
  op::run_block<Mul, 1>(form, form, arranged_form(factor), form);
  form.storage()->note_write();  // no version: nobody else has seen this tensor, or will
  return g;
}

struct Div : FloatBinary<"div", BinaryFn::Div> {
  static constexpr uint32_t needs[] = {in(1), in(0) | in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& a, const Tensor& b) {
    const Tensor over = g / rush::conj(b);
    return {over, c.wants(1) ? neg(over * rush::conj(a / b)) : Tensor()};
  }
};

struct DivMode : Named<"div"> {
  static constexpr bool in_place_safe = true;
  static Tensor call(const Tensor& a, const Tensor& b, std::optional<std::string_view> mode) {
    if (!mode) return div(a, b);
    if (*mode == "trunc") return div_trunc(a, b);
    if (*mode == "floor") return div_floor(a, b);
    fail(ErrorKind::Runtime, name, "rounding_mode must be None, 'trunc' or 'floor', got '", *mode,
         "'");
  }
};

// A rounded quotient moves in steps: its gradient is zero.
struct StepGrads {
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&, const Tensor&) {
    const Tensor zero = zeros_like(g);
    return {zero, zero};
  }
};
struct DivTrunc : SameBinary<"div", BinaryFn::TruncDivide>, StepGrads {};
struct DivFloor : SameBinary<"div", BinaryFn::FloorDivide>, StepGrads {};
struct FloorDivide : SameBinary<"floor_divide", BinaryFn::FloorDivide> {
};  // without gradient, as in PyTorch

struct Remainder : SameBinary<"remainder", BinaryFn::Remainder> {
  static constexpr uint32_t needs[] = {0, in(0) | in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& a, const Tensor& b) {
    return {g, c.wants(1) ? neg(g * div_floor(a, b)) : Tensor()};
  }
};

struct RemainderScalar : Named<"remainder"> {
  static Tensor call(const Scalar& a, const Tensor& b) { return remainder(wrap_number(a), b); }
};

struct Fmod : SameBinary<"fmod", BinaryFn::Fmod> {
  static constexpr uint32_t needs[] = {0, in(0) | in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& a, const Tensor& b) {
    return {g, c.wants(1) ? neg(g * div_trunc(a, b)) : Tensor()};
  }
};

// The gradients of a power, with PyTorch's limits: x^0 is flat in x, and 0^y is flat in y from 0
// up.
struct PowerGrads {
  static constexpr uint32_t needs[] = {in(0) | in(1), in(0) | in(1) | kOut};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& x, const Tensor& y) {
    return {c.wants(0) ? wrt_base(g, x, y) : Tensor(),
            c.wants(1) ? wrt_exponent(g, x, y, c.out()) : Tensor()};
  }
  static Tensor wrt_base(const Tensor& g, const Tensor& x, const Tensor& y) {
    if (y.is_wrapped_number()) return wrt_base(g, x, y.item());
    return zero_where(eq(y, wrap_number(0)), g * rush::conj(y * pow(x, y - 1)));
  }
  static Tensor wrt_base(const Tensor& g, const Tensor& x, const Scalar& exponent) {
    if (exponent.equals(0)) return zeros_like(g);
    if (exponent.equals(1)) return g;
    if (exponent.equals(2)) return g * (rush::conj(x) * 2);
    const auto z = exponent.to<complex<double>>();
    const Scalar less_one = exponent.is_complex()    ? Scalar(complex<double>{z.re - 1, z.im})
                            : exponent.is_floating() ? Scalar(z.re - 1)
                                                     : Scalar(exponent.to_int() - 1);
    return g * rush::conj(pow(x, wrap_number(less_one)) * exponent);
  }
  static Tensor wrt_exponent(const Tensor& g, const Tensor& x, const Tensor& y,
                             const Tensor& power) {
    // The logarithm of a number has all digits, whatever the default dtype is.
    if (x.is_wrapped_number() && !x.is_complex() && !x.item().equals(0))
      return g * rush::conj(power * Scalar(std::log(x.item().to_double())));
    const Tensor slope = g * rush::conj(power * log(x));
    return zero_where(
        logical_and(eq(x, wrap_number(0)), ge(y.is_complex() ? real(y) : y, wrap_number(0))),
        slope);
  }
};

struct Pow : SameBinary<"pow", BinaryFn::Pow>, PowerGrads {
  static Spec check(const Tensor& a, const Tensor& b) {
    if (b.is_wrapped_number() && is_integral(b.dtype()) && b.item().to_int() < 0) [[unlikely]] {
      rush::check(is_differentiable(a.dtype()), ErrorKind::Runtime, name,
                  "integers to negative integer powers are not allowed, the exponent is ", b.item(),
                  " for a ", a.dtype(), " tensor");
    }
    if (is_trivial(a, b)) return like(a);
    if (b.is_wrapped_number() && is_integral(a.dtype()) && is_integral(b.dtype()))
      check_fits(name, a.dtype(), b.item());
    return SameBinary::check(a, b);
  }
  // A bool tensor to the power True or False needs no power at all.
  static bool is_trivial(const Tensor& a, const Tensor& b) {
    return b.is_wrapped_number() && b.dtype() == DType::Bool && a.dtype() == DType::Bool;
  }
  static void run(const Tensor& a, const Tensor& b, const Tensor& out) {
    if (is_trivial(a, b)) return b.item().to<bool>() ? copy_data(out, a) : fill_data(out, true);
    // The powers that programs write, at the price of a product or a root.
    if (b.is_wrapped_number() && is_differentiable(a.dtype())) {
      const Scalar e = b.item();
      if (e.equals(2))
        return map_unary(UnaryFn::Square, a, out, {}, compute_type(result_type(a, b)));
      if (e.equals(0.5))
        return map_unary(UnaryFn::Sqrt, a, out, {}, compute_type(result_type(a, b)));
    }
    SameBinary::run(a, b, out);
  }
};

struct PowScalar : Named<"pow"> {
  static constexpr bool in_place_safe = true;
  static Tensor call(const Scalar& a, const Tensor& b) { return pow(wrap_number(a), b); }
};

struct FloatPower : Named<"float_power">, PowerGrads {
  static constexpr bool in_place_safe = true;
  static DType type_of(const Tensor& a, const Tensor& b) {
    return a.is_complex() || b.is_complex() ? DType::Complex128 : DType::Float64;
  }
  static Spec check(const Tensor& a, const Tensor& b) {
    return pointwise(name, a, b, type_of(a, b));
  }
  static void check_in_place(const Tensor& a, const Spec& spec) {
    check_dtype(a.dtype() == spec.dtype, "float_power_", "the result is ", spec.dtype,
                " and is not written into a ", a.dtype(), " tensor");
  }
  static void run(const Tensor& a, const Tensor& b, const Tensor& out) {
    map_binary(BinaryFn::Pow, a, b, out, {}, type_of(a, b));
  }
  // In the wide type as well: a power of half precision numbers overflows before it is scaled.
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& a, const Tensor& b) {
    const auto wide = [&](const Tensor& t) {
      return t.is_wrapped_number() ? t : cast(t, g.dtype());
    };
    return PowerGrads::grad(c, g, wide(a), wide(b));
  }
};

struct FloatPowerScalar : Named<"float_power"> {
  static constexpr bool in_place_safe = true;
  static Tensor call(const Scalar& a, const Tensor& b) { return float_power(wrap_number(a), b); }
};

}  // namespace rush

#include "ops/binary.inc"
