// meta.h: what autograd keeps about one tensor. Null for most tensors of a program that records
// nothing.
#pragma once

#include <memory>

#include "autograd/forward.h"
#include "autograd/hooks.h"
#include "autograd/node.h"
#include "core/layout.h"
#include "core/modes.h"
#include "core/spin_lock.h"
#include "core/tensor.h"

namespace rush {

struct RUSH_API GradMeta final : AutogradMeta {
  Tensor grad;  // read and written through grad_of and exchange_grad: backward runs beside Python
  std::unique_ptr<Tangents> tangents;  // forward mode, see forward.h
  Ref<Node> grad_fn;                   // null for leaves
  union {
    Node* accumulator = nullptr;  // a leaf's AccumulateGrad while somebody holds it; see Note [Leaf
                                  // and accumulator]
    GradMeta* next_doomed;        // once it is dead, see deferred_delete.h
  };
  uint32_t slot = 0;           // which result of grad_fn this tensor is
  uint32_t view_version = 0;   // views: the version for which grad_fn is right
  bool requires_grad = false;  // leaves only
  TensorHooksPointer hooks;
  mutable SpinLock lock;  // guards `grad` and `accumulator`

  ~GradMeta() = default;
  void dispose() noexcept override;
  static void* operator new(size_t bytes);
  static void operator delete(void* p, size_t bytes) noexcept;
};

inline GradMeta* grad_meta_or_null(const Tensor& t) {
  return static_cast<GradMeta*>(t.impl()->autograd);
}
RUSH_API GradMeta& grad_meta(const Tensor& t);  // made on first use

// The gradient of t as it is now, or undefined.
RUSH_API Tensor grad_of(const Tensor& t);
// Sets it and returns the old one, for the caller to drop: never with a lock held.
RUSH_API Tensor exchange_grad(const Tensor& t, Tensor grad);

// May autograd care about this tensor at all? One test on the way of every call.
inline bool is_tracked(const Tensor& t) {
  return t.defined() && (t.impl()->autograd || t.impl()->base || t.impl()->cut_by);
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

// Remembers in `out` why no gradient flows through it, so that backward() can name the place: what
// cut it off, or what cut off the tensor it was computed from.
inline void mark_cut(const Tensor& out, const char* by) {
  out.impl()->cut_by = by;
  out.impl()->cut_at = source_here();
}
inline void inherit_cut(const Tensor& out, const Tensor& from) {
  out.impl()->cut_by = from.impl()->cut_by;
  out.impl()->cut_at = from.impl()->cut_at;
}
inline constexpr const char* kCutByNoGrad = "no_grad";
inline constexpr const char* kCutByInference = "inference_mode";
// "it was cut off the graph by detach() at …", or what to do when nothing ever required a gradient.
RUSH_API std::string why_no_gradient(const Tensor& t);

// In-place writes. check_in_place raises for what must not be written (leaves that require grad,
// read-only memory). Ops that write one value everywhere do not mind when addresses repeat.
// `value_requires_grad`: what is written has a history.
RUSH_API void check_in_place(const char* op, const Tensor& t, bool repeats_are_fine = false,
                             bool value_requires_grad = false);
// Tells the graph that `t` was overwritten by `node` (its edge 0 is t's old value); views rewrite
// their base's history.
RUSH_API void rebase_history(const Tensor& t, const Ref<Node>& node);

}  // namespace rush
