// accumulate_grad.h: the node at the end of the graph: adds what arrives to a leaf's .grad.
#pragma once

#include "autograd/meta.h"

namespace rush {

// Note [Leaf and accumulator]
// The node owns its leaf; the leaf only remembers the node, so that a graph keeps its leaves alive
// and not the reverse. One mutex guards that back pointer: the node clears it before it dies, and a
// reader must take its reference under it.
class RUSH_API AccumulateGrad final : public Node {
 public:
  explicit AccumulateGrad(const Tensor& leaf);
  ~AccumulateGrad() override;
  const char* name() const override { return "AccumulateGrad"; }
  Grads apply(GradSpan grads, std::span<const bool> wanted) override;
  AccumulateGrad* as_accumulator() override { return this; }
  const Tensor& leaf() const { return leaf_; }

  static Ref<Node> of(const Tensor& leaf);

 private:
  Tensor leaf_;
};

}  // namespace rush
