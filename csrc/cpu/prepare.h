// prepare.h: brings tensors to the types and layouts that the CPU's loops take.
#pragma once

#include "core/layout.h"
#include "cpu/copy/copy.h"

namespace rush::cpu {

// The same values: x itself where it is already so.
inline Tensor contiguous(const Tensor& x) {
  if (x.is_contiguous()) return x;
  const Tensor out = make_tensor(x.sizes(), x.dtype());
  copy_cpu(x, out);
  return out;
}
inline Tensor converted(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  const Tensor from = arranged_form(x);  // see core/layout.h: read as it lies
  const Tensor out =
      x.is_contiguous()
          ? make_tensor(x.sizes(), dtype)
          : make_tensor(x.sizes(), preserved_strides(x.sizes(), x.strides()), dtype, {});
  copy_cpu(from, out);
  return out;
}
// Contiguous and in the loop's type.
inline Tensor in_loop_type(const Tensor& x) {
  return contiguous(converted(x, compute_type(x.dtype())));
}

// Runs f on a tensor like out, which is contiguous, in the loop's type; then fills out.
template <class F>
void into(const Tensor& out, F&& f) {
  const DType type = compute_type(out.dtype());
  const Tensor y = out.dtype() == type ? out : make_tensor(out.sizes(), type);
  f(y);
  if (!y.is_same(out)) copy_cpu(y, out);
}

}  // namespace rush::cpu
