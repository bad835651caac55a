// pointwise.h: the bases that pointwise blocks derive from: how the result type follows from the inputs.
#pragma once

#include "cpu/pointwise.h"
#include "ops/op.h"
#include "ops/operators.h"

namespace rush {

// float16 and bfloat16 are computed in float32.
inline DType compute_type(DType t) { return is_reduced_float(t) ? DType::Float32 : t; }

// exp, sin, ...: integers and bools give the default float.
template <UnaryFn fn>
struct FloatUnary {
  static constexpr bool in_place_safe = true;
  static Spec check(const Tensor& x) { return like(x, float_type(x.dtype())); }
  static void run(const Tensor& x, const Tensor& out) { map_unary(fn, x, out, {}, compute_type(float_type(x.dtype()))); }
};

// abs, floor, ...: the result has the input's type.
template <UnaryFn fn>
struct SameUnary {
  static constexpr bool in_place_safe = true;
  static Spec check(const Tensor& x) { return like(x); }
  static void run(const Tensor& x, const Tensor& out) { map_unary(fn, x, out); }
};

// isnan, signbit, ...: a question about each element.
template <UnaryFn fn>
struct PredicateUnary {
  static constexpr bool in_place_safe = true;
  static constexpr bool differentiable = false;
  static Spec check(const Tensor& x) { return like(x, DType::Bool); }
  static void run(const Tensor& x, const Tensor& out) { map_unary(fn, x, out); }
};

// mul, maximum, ...: the promoted type of both.
template <BinaryFn fn>
struct SameBinary {
  static constexpr bool in_place_safe = true;
  static Spec check_as(const char* op, const Tensor& a, const Tensor& b) { return pointwise(op, a, b, result_type(a, b)); }
  static void run(const Tensor& a, const Tensor& b, const Tensor& out) { map_binary(fn, a, b, out, {}, compute_type(result_type(a, b))); }
};

// atan2, true division, ...: the promoted type, at least the default float.
template <BinaryFn fn>
struct FloatBinary {
  static constexpr bool in_place_safe = true;
  static Spec check_as(const char* op, const Tensor& a, const Tensor& b) { return pointwise(op, a, b, float_type(result_type(a, b))); }
  static void run(const Tensor& a, const Tensor& b, const Tensor& out) {
    map_binary(fn, a, b, out, {}, compute_type(float_type(result_type(a, b))));
  }
};

// eq, lt, logical_and, ...: compared in the promoted type, bool comes out.
template <BinaryFn fn>
struct PredicateBinary {
  static constexpr bool in_place_safe = true;
  static constexpr bool differentiable = false;
  static Spec check_as(const char* op, const Tensor& a, const Tensor& b) { return pointwise(op, a, b, DType::Bool); }
  static void run(const Tensor& a, const Tensor& b, const Tensor& out) { map_binary(fn, a, b, out, {}, compute_type(result_type(a, b))); }
};

}  // namespace rush
