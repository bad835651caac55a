// accumulate_grad.h: the node at the end of the graph: adds what arrives to a leaf's .grad.
#pragma once

#include "autograd/meta.h"

namespace rush {

// Note [Leaf and accumulator]
// The node owns its leaf; the leaf only remembers the node, so that a graph keeps its leaves alive
// and not the reverse. The leaf's lock guards that back pointer: the node clears it before it dies,
// and a reader must take its reference under it.
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

// Adds g to t.grad; several threads may do so at once, and no addition is lost. A first gradient
// that nobody else holds is taken as it is when its layout is right: that of t when t is dense,
// else contiguous. Later ones are added in place, unless a graph of the addition is wanted.
RUSH_API void accumulate_grad(const Tensor& t, const Tensor& g);

}  // namespace rush
