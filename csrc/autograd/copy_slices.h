// copy_slices.h: the node of a base after one of its views was written to.
#pragma once

#include "autograd/meta.h"

namespace rush {

// base' = base with the region of `view` replaced by fn(view, others). Its gradient: outside the
// region it passes, inside it goes through fn.
class CopySlices final : public Node {
 public:
  CopySlices(const Tensor& base, const Tensor& view, Ref<Node> fn);
  const char* name() const override { return "CopySlices"; }
  Grads apply(GradSpan grads, std::span<const bool> wanted) override;

 private:
  void release_saved() override { fn_->drop_saved(released_at()); }
  Tensor in_geometry_of_base(const Tensor& g) const;

  Ref<Node> fn_;
  Dims base_sizes_, base_strides_, sizes_, strides_;
  int64_t offset_;  // of the view, from the base's first element, in elements of the view
  DType dtype_;     // of the view: real parts of a complex base are a view, too
};

}  // namespace rush
