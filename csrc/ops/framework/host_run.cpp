#include "ops/framework/host_run.h"

#include "core/shape.h"
#include "cuda/runtime/capture.h"
#include "cuda/runtime/launch.h"
#include "ops/framework/data.h"

namespace rush {

HostTwins::HostTwins(const char* op) {
  cuda::refuse_capture(op, "the op has no GPU kernel and runs on the host");
  cuda::note_wait(op);
}

Tensor HostTwins::of(const Tensor& t) {
  if (!t.defined() || !t.is_cuda()) return t;
  for (const auto& [original, copy] : pairs_)
    if (original.is_same(t)) return copy;
  // Blocks may count on the layout of their results, so it is kept where it is a dense one.
  const Tensor twin = is_dense(t.sizes(), t.strides())
                          ? make_tensor(t.sizes(), t.strides(), t.dtype(), Device{})
                          : make_tensor(t.sizes(), t.dtype());
  copy_data(twin, t);
  pairs_.emplace_back(t, twin);
  return twin;
}

std::vector<Tensor> HostTwins::of(TensorList ts) {
  std::vector<Tensor> out;
  for (const Tensor& t : ts) out.push_back(of(t));
  return out;
}

void HostTwins::write_back(const Tensor& t) const {
  for (const auto& [original, copy] : pairs_)
    if (original.is_same(t)) copy_data(t, copy);
}

}  // namespace rush
