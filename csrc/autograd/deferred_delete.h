// deferred_delete.h: frees graphs without recursion.
//
// Deleting a node drops its edges and saved tensors, which may delete further nodes, and so on
// along the whole graph; deleting a tensor drops its .grad, its tangent and its grad_fn, which lead
// to further tensors. Each thread keeps a list of the doomed: the first to come works it off, and
// those that die meanwhile only join the list.
#pragma once

#include "autograd/meta.h"

namespace rush {

class DeferredDelete {
 public:
  static void add(Node* n) noexcept;
  static void add(GradMeta* m) noexcept;

 private:
  static void work() noexcept;
};

}  // namespace rush
