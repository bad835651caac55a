// loops.h: what the GPU's loops share.
#pragma once

#include "core/tensor.h"
#include "cuda/kernels/args.h"

namespace rush::cuda {

Number to_number(const Scalar& s);

// dst[...] = src[...], broadcast and converted; either may be on the host. `non_blocking`: a copy
// from pinned memory is not waited for.
void copy(const Tensor& src, const Tensor& dst, bool non_blocking);
void fill(const Tensor& dst, const Scalar& value);
// An element that is zero is a fault: "op: rule".
void check_nonzero(const Tensor& x, const char* op, const char* rule);

// The same values: x itself where it is contiguous, or lies as `as` does.
inline Tensor contiguous(const Tensor& x) {
  if (x.is_contiguous()) return x;
  const Tensor out = make_tensor(x.sizes(), x.dtype(), x.device());
  copy(x, out, false);
  return out;
}
inline Tensor lying_like(const Tensor& as, const Tensor& x) {
  if (x.strides() == as.strides()) return x;
  const Tensor out = make_tensor(as.sizes(), as.strides(), x.dtype(), x.device());
  copy(x, out, false);
  return out;
}

}  // namespace rush::cuda
