// Comparisons, logic and questions about each element: bool comes out, and nothing has a gradient.
#include <limits>

#include "ops/framework/data.h"
#include "ops/pointwise/pointwise.h"

namespace rush {

DType comparison_type(const Tensor& a, const Tensor& b) {
  const DType t = result_type(a, b);
  if (!is_integral(t) || t == DType::Int64 || !(a.is_wrapped_number() || b.is_wrapped_number()))
      [[likely]]
    return t;
  const int64_t v = (b.is_wrapped_number() ? b : a).item().to_int();
  const int bits = int(8 * element_size(t));
  const bool is_signed = info(t).is_signed;
  const bool fits = is_signed ? v >= -(int64_t(1) << (bits - 1)) && v < (int64_t(1) << (bits - 1))
                              : v >= 0 && (bits >= 63 || v < (int64_t(1) << bits));
  return fits ? t : DType::Int64;
}

struct Eq : PredicateBinary<"eq", BinaryFn::Eq> {
  static constexpr bool takes_float8 = true;
};
struct Ne : PredicateBinary<"ne", BinaryFn::Ne> {
  static constexpr bool takes_float8 = true;
};
struct Lt : PredicateBinary<"lt", BinaryFn::Lt> {};
struct Le : PredicateBinary<"le", BinaryFn::Le> {};
struct Gt : PredicateBinary<"gt", BinaryFn::Gt> {};
struct Ge : PredicateBinary<"ge", BinaryFn::Ge> {};
struct LogicalAnd : PredicateBinary<"logical_and", BinaryFn::LogicalAnd> {};
struct LogicalOr : PredicateBinary<"logical_or", BinaryFn::LogicalOr> {};
struct LogicalXor : PredicateBinary<"logical_xor", BinaryFn::LogicalXor> {};
struct LogicalNot : PredicateUnary<"logical_not", UnaryFn::LogicalNot> {};

namespace {

// Types that the functor does not list have one answer for all elements: an integer is never nan.
template <OpName N, UnaryFn fn, bool otherwise>
struct FloatPredicate : Named<N> {
  static constexpr bool takes_float8 = true;
  static constexpr bool differentiable = false;
  static Spec check(const Tensor& x) { return like(x, DType::Bool); }
  static void run(const Tensor& x, const Tensor& out) {
    if (info(fn).types >> int(x.dtype()) & 1)
      map_unary(fn, x, out);
    else
      fill_data(out, otherwise);
  }
};

// As above, but complex numbers have no order.
template <OpName N, UnaryFn fn>
struct OrderedPredicate : FloatPredicate<N, fn, false> {
  static Spec check(const Tensor& x) {
    rush::check(!x.is_complex(), ErrorKind::DType, N.text, "not implemented for ", x.dtype(),
                " tensors");
    return like(x, DType::Bool);
  }
  static void check_out(const Tensor& out) {
    check_dtype(out.dtype() == DType::Bool, N.text, "out must be bool, it is ", out.dtype());
  }
};

}  // namespace

struct Isnan : FloatPredicate<"isnan", UnaryFn::IsNan, false> {};
struct Isinf : FloatPredicate<"isinf", UnaryFn::IsInf, false> {};
struct Isfinite : FloatPredicate<"isfinite", UnaryFn::IsFinite, true> {};
struct Isreal : FloatPredicate<"isreal", UnaryFn::IsReal, true> {};
struct Isposinf : OrderedPredicate<"isposinf", UnaryFn::IsPosInf> {};
struct Isneginf : OrderedPredicate<"isneginf", UnaryFn::IsNegInf> {};
struct Signbit : OrderedPredicate<"signbit", UnaryFn::SignBit> {};

struct Isclose : Named<"isclose"> {
  static constexpr bool differentiable = false;
  static Spec check(const Tensor& a, const Tensor& b, double rtol, double atol, bool) {
    check_dtype(a.dtype() == b.dtype(), name, "both tensors must have one dtype, they are ",
                a.dtype(), " and ", b.dtype());
    check_argument(rtol >= 0, name, "rtol must not be negative, got ", rtol);
    check_argument(atol >= 0, name, "atol must not be negative, got ", atol);
    require_kernel<BinaryFn::IsClose>(name, a.dtype());
    return pointwise(name, a, b, DType::Bool);
  }
  static void run(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan,
                  const Tensor& out) {
    map_binary(BinaryFn::IsClose, a, b, out, {rtol, atol, equal_nan});
  }
};

namespace {

bool all_true(const Tensor& t) { return all(t).item().to<bool>(); }

}  // namespace

struct Allclose : Named<"allclose"> {
  static bool call(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
    return all_true(isclose(a, b, rtol, atol, equal_nan));
  }
};

struct Equal : Named<"equal"> {
  static bool call(const Tensor& a, const Tensor& b) {
    check(!a.is_meta() && !b.is_meta(), ErrorKind::NotImplemented, name,
          "tensors on the meta device have no values to compare");
    check(a.device() == b.device(), ErrorKind::Device, name,
          "both tensors must be on one device, they are on ", a.device(), " and ", b.device());
    return a.sizes() == b.sizes() && all_true(eq(a, b));
  }
};

struct Dist : Named<"dist"> {
  static Tensor call(const Tensor& a, const Tensor& b, const Scalar& p) {
    return _vector_norm(a - b, p);
  }
};

struct IsNonzero : Named<"is_nonzero"> {
  static bool call(const Tensor& x) {
    check(x.numel() == 1, ErrorKind::Runtime, name,
          "only a tensor with one element is true or false, this one has shape ", x.sizes());
    return x.item().to<bool>();
  }
};

}  // namespace rush

#include "ops/compare.inc"
