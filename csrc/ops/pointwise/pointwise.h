// pointwise.h: the bases that pointwise blocks derive from: how the result type follows from the
// inputs.
//
// A base takes the op's name and its functor, and refuses types that the functor's row in the table
// does not list. What is left to a block is its gradient, and whatever is peculiar to it.
#pragma once

#include <array>

#include "device/pointwise.h"
#include "ops/framework/op.h"
#include "ops/framework/op_name.h"
#include "ops/framework/operators.h"

namespace rush {

template <OpName N>
struct Named {
  static constexpr const char* name = N.text;
  static constexpr bool any_device = true;  // all loops of a pointwise op are
  static constexpr bool any_layout = true;
  static constexpr bool any_order = true;
  static constexpr bool deferrable = true;
};

// FnInfo::types counts bits in the order of DType.
static_assert(int(DType::Bool) == 0 && int(DType::UInt16) == 6 && int(DType::Float32) == 11 &&
              int(DType::Complex128) == 14);

// Does the functor compute in this type? Raises otherwise.
template <auto fn>
void require_kernel(const char* op, DType t) {
  constexpr uint32_t types = info(fn).types;
  if (!(types >> int(t) & 1)) [[unlikely]] {
    if (is_float8(t)) op::fail_for_float8(op, t);
    fail(ErrorKind::DType, op, "not implemented for ", t, " tensors");
  }
}

// The promoted type of three operands.
inline DType result_type(const Tensor& a, const Tensor& b, const Tensor& c) {
  if (a.dtype() == b.dtype() && b.dtype() == c.dtype()) return a.dtype();
  ResultType r;
  r.add(a);
  r.add(b);
  r.add(c);
  return r.get();
}

// x where the condition fails, zero elsewhere: how gradients are masked.
inline Tensor zero_where(const Tensor& condition, const Tensor& x) {
  return where(condition, Scalar(0), x);
}
inline Tensor keep_where(const Tensor& condition, const Tensor& x) {
  return where(condition, x, wrap_number(0));
}

// exp, sin, ...: integers and bools give the default float.
template <OpName N, UnaryFn fn>
struct FloatUnary : Named<N> {
  static constexpr bool in_place_safe = true;
  static Spec check(const Tensor& x) {
    const DType t = float_type(x.dtype());
    require_kernel<fn>(N.text, t);
    return like(x, t);
  }
  static void run(const Tensor& x, const Tensor& out) {
    pointwise_loops(out).unary(fn, x, out, {}, compute_type(float_type(x.dtype())));
  }
};

// abs, floor, ...: the result has the input's type.
template <OpName N, UnaryFn fn>
struct SameUnary : Named<N> {
  static constexpr bool in_place_safe = true;
  static Spec check(const Tensor& x) {
    require_kernel<fn>(N.text, x.dtype());
    return like(x);
  }
  static void run(const Tensor& x, const Tensor& out) {
    pointwise_loops(out).unary(fn, x, out, {}, compute_type(x.dtype()));
  }
};

// isnan, signbit, ...: a question about each element.
template <OpName N, UnaryFn fn>
struct PredicateUnary : Named<N> {
  static constexpr bool in_place_safe = true;
  static constexpr bool differentiable = false;
  static Spec check(const Tensor& x) {
    require_kernel<fn>(N.text, x.dtype());
    return like(x, DType::Bool);
  }
  static void run(const Tensor& x, const Tensor& out) {
    pointwise_loops(out).unary(fn, x, out, {}, compute_type(x.dtype()));
  }
};

// mul, maximum, ...: the promoted type of both.
template <OpName N, BinaryFn fn>
struct SameBinary : Named<N> {
  static constexpr bool in_place_safe = true;
  static Spec check(const Tensor& a, const Tensor& b) {
    const DType t = result_type(a, b);
    require_kernel<fn>(N.text, t);
    return pointwise(N.text, a, b, t);
  }
  static void run(const Tensor& a, const Tensor& b, const Tensor& out) {
    pointwise_loops(out).binary(fn, a, b, out, {}, compute_type(result_type(a, b)));
  }
};

// atan2, true division, ...: the promoted type, at least the default float.
template <OpName N, BinaryFn fn>
struct FloatBinary : Named<N> {
  static constexpr bool in_place_safe = true;
  static Spec check(const Tensor& a, const Tensor& b) {
    const DType t = float_type(result_type(a, b));
    require_kernel<fn>(N.text, t);
    return pointwise(N.text, a, b, t);
  }
  static void run(const Tensor& a, const Tensor& b, const Tensor& out) {
    pointwise_loops(out).binary(fn, a, b, out, {}, compute_type(float_type(result_type(a, b))));
  }
};

// The type in which two operands are compared: the promoted one, wide enough for a number beyond it
// (uint8 == 300 is false).
RUSH_API DType comparison_type(const Tensor& a, const Tensor& b);

// eq, lt, logical_and, ...: compared in the promoted type, bool comes out.
template <OpName N, BinaryFn fn>
struct PredicateBinary : Named<N> {
  static constexpr bool in_place_safe = true;
  static constexpr bool differentiable = false;
  static Spec check(const Tensor& a, const Tensor& b) {
    require_kernel<fn>(N.text, result_type(a, b));
    return pointwise(N.text, a, b, DType::Bool);
  }
  static void run(const Tensor& a, const Tensor& b, const Tensor& out) {
    pointwise_loops(out).binary(fn, a, b, out, {}, compute_type(comparison_type(a, b)));
  }
};

// silu_backward, ...: the gradient of an activation from g, what forward kept (x or y) and the
// numbers of the call. They are ops, so that one pass over memory does it; their own gradients are
// formulas.
template <OpName N, BinaryFn fn, class... Numbers>
struct FusedBackward : Named<N> {
  static Spec check(const Tensor& g, const Tensor& x, const Numbers&...) {
    return SameBinary<N, fn>::check(g, x);
  }
  static void run(const Tensor& g, const Tensor& x, const Numbers&... numbers, const Tensor& out) {
    const std::array<Scalar, sizeof...(Numbers)> params{numbers...};
    pointwise_loops(out).binary(fn, g, x, out, params, compute_type(result_type(g, x)));
  }
};

}  // namespace rush
