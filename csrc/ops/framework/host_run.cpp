#include "ops/framework/host_run.h"

#include "core/misaligned.h"
#include "core/shape.h"
#include "device/runtime.h"
#include "ops/framework/data.h"

namespace rush {

bool needs_host_copy(const Tensor& t) { return device_traits(t).separate_memory; }

Tensor HostCopies::of(const Tensor& t) {
  if (!t.defined()) return t;
  if (!needs_host_copy(t)) return is_misaligned(t) ? contiguous_data(t) : t;
  for (const auto& [original, copy] : pairs_)
    if (original.is_same(t)) return copy;
  if (pairs_.empty()) {
    device_runtime(t).refuse_capture(op_, "the op has no GPU kernel and runs on the host");
    device_runtime(t).note_wait(op_);
  }
  // Blocks may count on the layout of their results, so it is kept where it is a dense one.
  const Tensor copy = is_dense(t.sizes(), t.strides())
                          ? make_tensor(t.sizes(), t.strides(), t.dtype(), Device{})
                          : make_tensor(t.sizes(), t.dtype());
  copy_data(copy, t);
  pairs_.emplace_back(t, copy);
  return copy;
}

std::vector<Tensor> HostCopies::of(TensorList ts) {
  std::vector<Tensor> out;
  for (const Tensor& t : ts) out.push_back(of(t));
  return out;
}

void HostCopies::write_back(const Tensor& t) const {
  for (const auto& [original, copy] : pairs_)
    if (original.is_same(t)) copy_data(t, copy);
}

}  // namespace rush
