#include "autograd/meta.h"

#include <mutex>

#include "autograd/accumulate_grad.h"
#include "autograd/copy_slices.h"
#include "autograd/deferred_delete.h"
#include "autograd/engine.h"
#include "autograd/snapshot.h"
#include "core/object_pool.h"

namespace rush {
namespace {

// "add_ at train.py:3": for messages.
std::string writer_of(const Tensor& t) {
  const VersionCounter& v = *t.version_counter();
  return concat(v.writer() ? v.writer() : "an in-place operation", at_source(v.written_at()));
}

}  // namespace

std::string why_no_gradient(const Tensor& t) {
  const char* by = t.impl()->cut_by;
  const std::string where = at_source(t.impl()->cut_at);
  if (!by) {
    if (!is_differentiable(t.dtype()))
      return concat("it is ", t.dtype(), ", and only floating and complex tensors have gradients");
    return "nothing that it was computed from requires grad; call requires_grad_() on the tensors "
           "to differentiate by";
  }
  if (by == kCutByNoGrad || by == kCutByInference)
    return concat("it, or what it was computed from, was made under ", by, where);
  if (std::string_view(by) == "detach" || std::string_view(by) == ".data")
    return concat("its history was cut by ", by, where);
  return concat("it comes from ", by, where, ", which has no gradient");
}

GradMeta& grad_meta(const Tensor& t) {
  if (!t.impl()->autograd) t.impl()->autograd = new GradMeta;
  return static_cast<GradMeta&>(*t.impl()->autograd);
}

void* GradMeta::operator new(size_t bytes) { return pool_allocate(bytes); }
void GradMeta::operator delete(void* p, size_t bytes) noexcept { pool_free(p, bytes); }

void GradMeta::dispose() noexcept {
  if (grad.defined() || tangents || hooks)
    DeferredDelete::add(this);
  else
    delete this;  // a grad_fn defers its own
}

Tensor grad_of(const Tensor& t) {
  const GradMeta* meta = grad_meta_or_null(t);
  if (!meta) return {};
  std::lock_guard lock(meta->lock);
  return meta->grad;
}

Tensor exchange_grad(const Tensor& t, Tensor grad) {
  GradMeta& meta = grad_meta(t);
  std::lock_guard lock(meta.lock);
  std::swap(meta.grad, grad);
  return grad;
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
  check(
      !on || !t.impl()->has(TensorImpl::kInference) || t_modes & kInferenceMode, ErrorKind::Runtime,
      "requires_grad_",
      "this tensor was made under inference_mode() and can require gradients only there; outside, "
      "clone() it first");
  check(on || is_leaf(t), ErrorKind::Runtime, "requires_grad_",
        "only a leaf can stop requiring gradients; use detach() to cut a computed tensor off");
  if (is_leaf(t)) grad_meta(t).requires_grad = on;
}

bool is_leaf(const Tensor& t) { return !grad_fn(t); }

// Note [Views made without grad mode]
// Such a view has no history of its own: gradients stop there, as the user asked. Once its base is
// written by a recorded op, neither reading it as before nor through the base's new history would
// be what was asked for, so both raise (as in PyTorch): the view must be made again.
Ref<Node> grad_fn(const Tensor& t) {
  GradMeta* meta = grad_meta_or_null(t);
  if (!t.impl()->base) return meta ? meta->grad_fn : nullptr;
  const Tensor base(t.impl()->base);
  const bool stale = !meta || !meta->grad_fn || meta->view_version != t.version();
  if (!stale || !requires_grad(base) || is_leaf(base)) return meta ? meta->grad_fn : nullptr;
  if (t.impl()->has(TensorImpl::kNoGradView)) {
    check(meta && meta->view_version == t.version(), ErrorKind::Runtime, "", "this view (shape ",
          t.sizes(),
          ") was made with grad mode off, and its base has been written in place since, with grad "
          "mode on (by ",
          writer_of(t), "). Make the view again after the write, or with grad mode on");
    return nullptr;
  }
  GradMeta& own = grad_meta(t);
  const Ref<Node> before = own.grad_fn;
  own.grad_fn = engine_ops().view_node(base, t);  // whose only result is this view
  own.slot = 0;
  own.view_version = t.version();
  if (own.hooks) move_retained_grad(*own.hooks, before.get(), own.grad_fn.get(), own.slot);
  return own.grad_fn;
}

Edge gradient_edge(const Tensor& t) {
  if (!requires_grad(t)) return {};
  if (Ref<Node> fn = grad_fn(t)) return {fn, grad_meta(t).slot};
  return {AccumulateGrad::of(t), 0};
}

void set_history(const Tensor& t, const Ref<Node>& node, uint32_t slot) {
  GradMeta& meta = grad_meta(t);
  if (meta.hooks) [[unlikely]]
    move_retained_grad(*meta.hooks, meta.grad_fn.get(), node.get(), slot);
  meta.grad_fn = node;
  meta.slot = slot;
  meta.requires_grad = false;
  if (t.impl()->base) meta.view_version = t.version();
}

Tensor detached(const Tensor& t) { return t.alias(); }

namespace {

void check_may_be_written(const char* op, const Tensor& t, bool repeats_are_fine,
                          bool value_requires_grad) {
  check(
      !t.impl()->has(TensorImpl::kInference) || t_modes & kInferenceMode, ErrorKind::Runtime, op,
      "this tensor was made under inference_mode() and must not be written outside of it: nothing "
      "counts its versions. clone() it to get a normal tensor");
  check(is_arranged(t) || !t.storage()->read_only(), ErrorKind::Runtime, op,
        "this tensor wraps read-only memory; clone() it before writing");
  if (!is_arranged(t)) t.storage()->note_write();  // and again by bump_version(), when it is done
  check(repeats_are_fine || !has_internal_overlap(t), ErrorKind::Runtime, op,
        "more than one index of this tensor (shape ", t.sizes(), ", strides ", t.strides(),
        ") refers to one memory location, as after expand(); clone() it before writing");
  if (!grad_enabled() || !(value_requires_grad || is_tracked(t))) return;
  const bool records = value_requires_grad || requires_grad(t);
  check(!(records && t.impl()->base && t.impl()->has(TensorImpl::kNoGradView)), ErrorKind::Runtime,
        op,
        "a view made with grad mode off is being written in place with grad mode on. Make the "
        "view with grad mode on, or write under no_grad()");
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

}  // namespace

void check_in_place(const char* op, const Tensor& t, bool repeats_are_fine,
                    bool value_requires_grad) {
  check_may_be_written(op, t, repeats_are_fine, value_requires_grad);
  before_write(t);
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
