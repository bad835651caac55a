// operators.h: arithmetic on tensors as gradients and composites write it.
#pragma once

#include "ops/ops.h"

namespace rush {

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator-(const Tensor& a) { return neg(a); }
inline Tensor operator+(const Tensor& a, const Scalar& b) { return add(a, wrap_number(b)); }
inline Tensor operator-(const Tensor& a, const Scalar& b) { return sub(a, wrap_number(b)); }
inline Tensor operator*(const Tensor& a, const Scalar& b) { return mul(a, wrap_number(b)); }
inline Tensor operator/(const Tensor& a, const Scalar& b) { return div(a, wrap_number(b)); }
inline Tensor operator+(const Scalar& a, const Tensor& b) { return add(b, wrap_number(a)); }
inline Tensor operator-(const Scalar& a, const Tensor& b) { return sub(wrap_number(a), b); }
inline Tensor operator*(const Scalar& a, const Tensor& b) { return mul(b, wrap_number(a)); }
inline Tensor operator/(const Scalar& a, const Tensor& b) { return div(wrap_number(a), b); }

}  // namespace rush
