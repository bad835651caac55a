// snapshot_node.h: the node of a block whose arguments programs may overwrite before backward, as
// PyTorch saves something else for it. A file specialises op::make_node of its block by this.
#pragma once

#include "autograd/snapshot.h"
#include "ops/framework/op.h"

namespace rush::op {

template <class Op, class... A>
Ref<OpNode<Op, A...>> make_snapshot_node(const A&... args) {
  const SnapshotScope scope;
  auto node = Ref<OpNode<Op, A...>>::adopt(new OpNode<Op, A...>(saved_mask<Op>(args...), args...));
  (visit_tensors([&](const Tensor& t) { node->add_edge(t.defined() ? gradient_edge(t) : Edge{}); },
                 args),
   ...);
  return node;
}

}  // namespace rush::op
