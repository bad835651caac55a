// meta.h: what autograd keeps about one tensor. Null for most tensors of a program that records
// nothing.
#pragma once

#include <memory>

#include "autograd/forward.h"
#include "autograd/node.h"
#include "core/modes.h"
#include "core/tensor.h"

namespace rush {

struct RUSH_API GradMeta final : AutogradMeta {
  Tensor grad;
  std::unique_ptr<Tangents> tangents;  // forward mode, see forward.h
  Ref<Node> grad_fn;  // null for leaves
  Node* accumulator =
      nullptr;  // a leaf's AccumulateGrad while somebody holds it; see Note [Leaf and accumulator]
  uint32_t slot = 0;           // which result of grad_fn this tensor is
  uint32_t view_version = 0;   // views: the version for which grad_fn is right
  bool requires_grad = false;  // leaves only
  bool retains_grad = false;
};

inline GradMeta* grad_meta_or_null(const Tensor& t) {
  return static_cast<GradMeta*>(t.impl()->autograd);
}
RUSH_API GradMeta& grad_meta(const Tensor& t);  // made on first use

// May autograd care about this tensor at all? One test on the way of every call.
inline bool is_tracked(const Tensor& t) {
  return t.defined() && (t.impl()->autograd || t.impl()->base);
}

RUSH_API bool requires_grad(const Tensor& t);
RUSH_API void set_requires_grad(const Tensor& t, bool on);
RUSH_API bool is_leaf(const Tensor& t);
// The node that made t; views whose base was written to since get a fresh one. Null for leaves.
RUSH_API Ref<Node> grad_fn(const Tensor& t);
// Where a gradient of t must go: its grad_fn, or the accumulator of a leaf; empty when t needs
// none.
RUSH_API Edge gradient_edge(const Tensor& t);
RUSH_API void set_history(const Tensor& t, const Ref<Node>& node, uint32_t slot);
// A tensor over the same storage and version counter, cut off from the graph.
RUSH_API Tensor detached(const Tensor& t);

// In-place writes. check_in_place raises for what must not be written (leaves that require grad,
// read-only memory). Ops that write one value everywhere do not mind when addresses repeat.
RUSH_API void check_in_place(const char* op, const Tensor& t, bool repeats_are_fine = false);
// Tells the graph that `t` was overwritten by `node` (its edge 0 is t's old value); views rewrite
// their base's history.
RUSH_API void rebase_history(const Tensor& t, const Ref<Node>& node);

}  // namespace rush
