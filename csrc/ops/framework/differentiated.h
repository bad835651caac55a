// differentiated.h: does a formula of backward have to be written over ops?
#pragma once

#include "ops/framework/op.h"

namespace rush {

// Is the gradient that a formula computes from these tensors itself differentiated? In reverse mode
// that is a graph to be recorded; in forward mode one of them carries a tangent, or stands for
// samples of which one may. Else a fused op that has no derivative will do.
template <class... A>
bool is_differentiated(const A&... read) {
  if (grad_enabled()) return true;
  if (!forward_active()) return false;
  bool batched = false;
  (op::visit_tensors([&](const Tensor& t) { batched |= t.defined() && t.is_batched(); }, read),
   ...);
  return batched || op::any_tangent(read...);
}

}  // namespace rush
