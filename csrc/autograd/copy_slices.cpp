#include "autograd/copy_slices.h"

#include "autograd/engine.h"

namespace rush {

CopySlices::CopySlices(const Tensor& base, const Tensor& view, Ref<Node> fn)
    : fn_(std::move(fn)),
      base_sizes_(base.sizes()),
      base_strides_(base.strides()),
      sizes_(view.sizes()),
      strides_(view.strides()),
      offset_(view.offset() - base.offset() * base.element_size() / view.element_size()),
      dtype_(view.dtype()) {
  // Edge 0 is the base's old value in place of the view's; the others are those of the op that
  // wrote.
  add_edge(gradient_edge(base));
  for (size_t i = 1; i < fn_->edges().size(); ++i) add_edge(fn_->edges()[i]);
}

Grads CopySlices::apply(GradSpan grads, std::span<const bool> wanted) {
  const EngineOps& ops = engine_ops();
  Grads results(edges().size());
  if (!grads[0].defined()) return results;
  // A copy with the base's own geometry, so that the view's geometry fits it.
  const Tensor whole = ops.zeros(base_sizes_, grads[0].dtype(), grads[0].device());
  set_geometry(whole, base_sizes_, base_strides_, 0);
  ops.copy(whole, grads[0]);
  const Tensor region = whole.alias(sizes_, strides_, offset_);
  region.impl()->dtype = dtype_;
  const Tensor incoming[] = {ops.clone(region)};

  SmallVector<bool, 8> wanted_by_fn(fn_->edges().size());
  wanted_by_fn[0] = wanted[0];
  for (size_t i = 1; i < wanted_by_fn.size(); ++i) wanted_by_fn[i] = wanted[i];
  Grads inner =
      fn_->apply(incoming, std::span<const bool>(wanted_by_fn.data(), wanted_by_fn.size()));
  if (wanted[0]) {
    const Tensor old = inner[0].defined() ? inner[0] : ops.zeros(sizes_, dtype_, grads[0].device());
    ops.copy(region, old);
    results[0] = whole;
  }
  for (size_t i = 1; i < inner.size(); ++i) results[i] = inner[i];
  return results;
}

}  // namespace rush
