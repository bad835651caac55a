#include "autograd/meta.h"

#include "autograd/accumulate_grad.h"
#include "autograd/copy_slices.h"
#include "autograd/engine.h"

namespace rush {

GradMeta& grad_meta(const Tensor& t) {
  if (!t.impl()->autograd) t.impl()->autograd = new GradMeta;
  return static_cast<GradMeta&>(*t.impl()->autograd);
}

bool requires_grad(const Tensor& t) {
  if (!t.defined()) return false;
  if (t.is_batched()) return requires_grad(Tensor(t.impl()->physical));
  if (const GradMeta* meta = grad_meta_or_null(t); meta && (meta->requires_grad || meta->grad_fn))
    return true;
  return t.impl()->base && requires_grad(Tensor(t.impl()->base));
}

void set_requires_grad(const Tensor& t, bool on) {
  if (!on && !t.impl()->autograd) return;
  check(!on || is_differentiable(t.dtype()), ErrorKind::Runtime, "requires_grad_",
        "only floating and complex tensors can require gradients, this one is ", t.dtype());
  check(on || is_leaf(t), ErrorKind::Runtime, "requires_grad_",
        "only a leaf can stop requiring gradients; use detach() to cut a computed tensor off");
  if (is_leaf(t)) grad_meta(t).requires_grad = on;
}

bool is_leaf(const Tensor& t) { return !grad_fn(t); }

Ref<Node> grad_fn(const Tensor& t) {
  GradMeta* meta = grad_meta_or_null(t);
  if (t.impl()->base) {
    const Tensor base(t.impl()->base);
    const bool stale = !meta || !meta->grad_fn || meta->view_version != t.version();
    if (stale && requires_grad(base) && !is_leaf(base)) {
      GradMeta& own = grad_meta(t);
      own.grad_fn = engine_ops().view_node(base, t);
      own.slot = own.grad_fn->add_result(t);
      own.view_version = t.version();
      return own.grad_fn;
    }
  }
  return meta ? meta->grad_fn : nullptr;
}

Edge gradient_edge(const Tensor& t) {
  if (!requires_grad(t)) return {};
  if (Ref<Node> fn = grad_fn(t)) return {fn, grad_meta(t).slot};
  return {AccumulateGrad::of(t), 0};
}

void set_history(const Tensor& t, const Ref<Node>& node, uint32_t slot) {
  GradMeta& meta = grad_meta(t);
  meta.grad_fn = node;
  meta.slot = slot;
  meta.requires_grad = false;
  if (t.impl()->base) meta.view_version = t.version();
}

Tensor detached(const Tensor& t) { return t.alias(); }

void check_in_place(const char* op, const Tensor& t, bool repeats_are_fine) {
  check(!t.storage()->read_only(), ErrorKind::Runtime, op,
        "this tensor wraps read-only memory; clone() it before writing");
  check(repeats_are_fine || !has_internal_overlap(t), ErrorKind::Runtime, op,
        "more than one index of this tensor (shape ", t.sizes(), ", strides ", t.strides(),
        ") refers to one memory location, as after expand(); clone() it before writing");
  if (!grad_enabled() || !is_tracked(t)) return;
  if (requires_grad(t) && is_leaf(t)) {
    const GradMeta* own = grad_meta_or_null(t);
    const bool is_view_of_leaf = t.impl()->base && !(own && own->requires_grad);
    fail(ErrorKind::Runtime, op,
         is_view_of_leaf
             ? "a view of a leaf tensor that requires grad is being used in an in-place operation"
             : "a leaf tensor that requires grad is being used in an in-place operation",
         "; write under no_grad(), or work on a clone()");
  }
  if (!t.impl()->base) return;
  const Tensor base(t.impl()->base);
  check(!(requires_grad(base) && is_leaf(base)), ErrorKind::Runtime, op,
        "a view of a leaf tensor that requires grad is being used in an in-place operation; write "
        "under no_grad(), or work on a clone()");
}

void rebase_history(const Tensor& t, const Ref<Node>& node) {
  if (!t.impl()->base) {
    set_history(t, node, node->add_result(t));
    return;
  }
  const Tensor base(t.impl()->base);
  node->add_result(t);
  Ref<Node> slices = Ref<Node>::adopt(new CopySlices(base, t, node));
  set_history(base, slices, slices->add_result(base));
  grad_meta(t).grad_fn = nullptr;  // read anew from the base, see grad_fn()
  grad_fn(t);
}

}  // namespace rush
