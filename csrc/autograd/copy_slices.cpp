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

// Under create_graph the ops below record themselves, the copies through `region` included.
Grads CopySlices::apply(GradSpan grads, std::span<const bool> wanted) {
  const EngineOps& ops = engine_ops();
  Grads results(edges().size());
  const Tensor& g = grads[0];
  if (!g.defined()) return results;
  const Tensor whole = in_geometry_of_base(g);
  const Tensor seen = ops.in_dtype(whole, dtype_);
  const Tensor region = ops.as_strided(seen, sizes_, strides_, seen.offset() + offset_);
  const Tensor incoming[] = {ops.clone(region)};
  Grads inner = fn_->apply(incoming, wanted);
  if (wanted[0]) {
    ops.copy(region, inner[0].defined() ? inner[0] : ops.zeros(sizes_, dtype_, g.device()));
    results[0] = whole;
  }
  for (size_t i = 1; i < inner.size(); ++i) results[i] = inner[i];
  return results;
}

// A copy of g with the base's own geometry, so that the view's geometry fits it; g itself where
// nobody else will read it. Writing a sequence slice by slice then costs a slice per step, not a copy
// of everything.
Tensor CopySlices::in_geometry_of_base(const Tensor& g) const {
  const EngineOps& ops = engine_ops();
  if (is_contiguous(base_sizes_, base_strides_)) {
    const bool mine = !grad_enabled() && g.is_contiguous() && !g.impl()->base &&
                      g.ref()->use_count() == 1 && g.storage()->use_count() == 1;
    return mine ? g : ops.contiguous_clone(g);
  }
  int64_t last = 0;
  for (size_t i = 0; i < base_sizes_.size(); ++i)
    last += (std::max<int64_t>(base_sizes_[i], 1) - 1) * base_strides_[i];
  const Tensor whole = ops.as_strided(ops.zeros(Dims{last + 1}, g.dtype(), g.device()), base_sizes_,
                                      base_strides_, 0);
  ops.copy(whole, g);
  return whole;
}

}  // namespace rush
