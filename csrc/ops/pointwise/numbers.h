// Numbers in gradients. Two numbers alone give the default dtype, so what is computed of a number
// before it meets a tensor would be rounded to float32, whatever the tensor's dtype.
#pragma once

#include "ops/framework/data.h"
#include "ops/framework/operators.h"

namespace rush {

// f(x); where x is a number, in float64 or complex128, and a number again.
template <class F>
Tensor of_number(const Tensor& x, F&& f) {
  if (!x.is_wrapped_number()) return f(x);
  const Tensor wide = cast(x, x.is_complex() ? DType::Complex128 : DType::Float64);
  return wrap_number(f(wide).item());
}

}  // namespace rush
