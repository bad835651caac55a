// Functions of two tensors: extrema, logarithms, angles, steps.
#include "ops/pointwise/pointwise.h"

namespace rush {
namespace {

constexpr double kLn2 = 0.693147180559945309417;

// The extrema of complex numbers do not exist.
void check_ordered(const char* op, const Tensor& a, const Tensor& b) {
  check(!a.is_complex() && !b.is_complex(), ErrorKind::DType, op,
        "complex numbers have no order; the operands are ", a.dtype(), " and ", b.dtype());
}

template <OpName N, BinaryFn fn>
struct Extremum : SameBinary<N, fn> {
  static Spec check(const Tensor& a, const Tensor& b) {
    check_ordered(N.text, a, b);
    return SameBinary<N, fn>::check(a, b);
  }
  static constexpr uint32_t needs[] = {in(0) | in(1), in(0) | in(1)};
};

using Comparison = Tensor (*)(const Tensor&, const Tensor&);

// Equal elements share the gradient; a nan passes it to both.
template <OpName N, BinaryFn fn, Comparison loses, Comparison wins>
struct SharedExtremum : Extremum<N, fn> {
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& a, const Tensor& b) {
    const Tensor share = where(eq(a, b), g * 0.5, g);
    return {c.wants(0) ? zero_where(loses(a, b), share) : Tensor(),
            c.wants(1) ? zero_where(wins(a, b), share) : Tensor()};
  }
};

// The first of equal elements takes the gradient.
template <OpName N, BinaryFn fn, Comparison holds>
struct FirstExtremum : Extremum<N, fn> {
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& a, const Tensor& b) {
    const Tensor first = logical_or(holds(a, b), isnan(b));
    return {keep_where(first, g), zero_where(first, g)};
  }
};

}  // namespace

struct Maximum : SharedExtremum<"maximum", BinaryFn::Maximum, lt, gt> {};
struct Minimum : SharedExtremum<"minimum", BinaryFn::Minimum, gt, lt> {};
struct Fmax : FirstExtremum<"fmax", BinaryFn::Fmax, ge> {};
struct Fmin : FirstExtremum<"fmin", BinaryFn::Fmin, le> {};

struct Atan2 : FloatBinary<"atan2", BinaryFn::Atan2> {
  static constexpr uint32_t needs[] = {in(0) | in(1), in(0) | in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& y, const Tensor& x) {
    const Tensor r = square(x) + square(y);
    const Tensor over = zero_where(eq(r, wrap_number(0)), g / r);
    return {c.wants(0) ? over * x : Tensor(), c.wants(1) ? over * neg(y) : Tensor()};
  }
};

struct Hypot : SameBinary<"hypot", BinaryFn::Hypot> {
  static constexpr uint32_t needs[] = {in(0) | kOut, in(1) | kOut};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& a, const Tensor& b) {
    return {c.wants(0) ? g * (a / c.out()) : Tensor(), c.wants(1) ? g * (b / c.out()) : Tensor()};
  }
};

struct Logaddexp : SameBinary<"logaddexp", BinaryFn::Logaddexp> {
  static constexpr uint32_t needs[] = {in(0) | in(1), in(0) | in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& a, const Tensor& b) {
    return {c.wants(0) ? g * conj(sigmoid(a - b)) : Tensor(),
            c.wants(1) ? g * conj(sigmoid(b - a)) : Tensor()};
  }
};

struct Logaddexp2 : SameBinary<"logaddexp2", BinaryFn::Logaddexp2> {
  static constexpr uint32_t needs[] = {in(0) | in(1), in(0) | in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& a, const Tensor& b) {
    return {c.wants(0) ? g * sigmoid((a - b) * kLn2) : Tensor(),
            c.wants(1) ? g * sigmoid((b - a) * kLn2) : Tensor()};
  }
};

struct Nextafter : SameBinary<"nextafter", BinaryFn::Nextafter> {
  static void run(const Tensor& a, const Tensor& b, const Tensor& out) {
    const DType t = result_type(a, b);
    if (t == DType::Float16)
      map_binary(BinaryFn::NextafterHalf, a, b, out, {}, DType::Float32);
    else if (t == DType::BFloat16)
      map_binary(BinaryFn::NextafterBfloat16, a, b, out, {}, DType::Float32);
    else
      SameBinary::run(a, b, out);
  }
  // The result moves with self; where it is other already, it does not.
  static constexpr uint32_t needs[] = {in(0) | in(1), 0};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& a, const Tensor& b) {
    return {c.wants(0) ? keep_where(ne(a, b), g) : Tensor(), c.wants(1) ? zeros_like(g) : Tensor()};
  }
};

struct Copysign : FloatBinary<"copysign", BinaryFn::Copysign> {
  static constexpr uint32_t needs[] = {in(0) | kOut, 0};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& a, const Tensor&) {
    return {c.wants(0) ? g * zero_where(eq(a, wrap_number(0)), c.out() / a) : Tensor(),
            c.wants(1) ? zeros_like(g) : Tensor()};
  }
};

struct Xlogy : FloatBinary<"xlogy", BinaryFn::Xlogy> {
  static constexpr uint32_t needs[] = {in(0) | in(1), in(0) | in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& x, const Tensor& y) {
    Tensor wrt_x;
    if (c.wants(0))
      wrt_x = zero_where(logical_and(eq(x, wrap_number(0)), le(y, wrap_number(0))), xlogy(g, y));
    return {wrt_x, c.wants(1) ? g * x / y : Tensor()};
  }
};

struct XlogyScalar : Named<"xlogy"> {
  static constexpr bool in_place_safe = true;
  static Tensor call(const Scalar& x, const Tensor& y) { return xlogy(wrap_number(x), y); }
};

struct Heaviside
    : SameBinary<"heaviside", BinaryFn::Heaviside> {  // without gradient, as in PyTorch
  static Spec check(const Tensor& x, const Tensor& values) {
    check_ordered(name, x, values);
    check_dtype(x.dtype() == values.dtype(), name, "self and values must have one dtype, they are ",
                x.dtype(), " and ", values.dtype());
    return SameBinary::check(x, values);
  }
};

struct Ldexp : Named<"ldexp"> {
  static constexpr bool in_place_safe = true;
  // An integer exponent takes no part in promotion; the power is computed wide, so that it does not
  // overflow before x. A single one that takes no part either is as precise as the result.
  static Tensor call(const Tensor& x, const Tensor& exponent) {
    if (is_differentiable(exponent.dtype())) {
      const DType real = to_real(result_type(x, exponent));
      const bool narrow = exponent.dim() == 0 && !exponent.is_complex() &&
                          element_size(exponent.dtype()) < element_size(real);
      return x * pow(Scalar(2.0), narrow ? cast(exponent, real) : exponent);
    }
    const DType t = float_type(x.dtype());
    const Tensor y = x * pow(Scalar(2.0), cast(exponent, to_real(compute_type(t))));
    return y.dtype() == t ? y : cast(y, t);
  }
};

}  // namespace rush

#include "ops/binary_math.inc"
