#include "autograd/saved_tensor.h"

#include "autograd/accumulate_grad.h"
#include "autograd/remade.h"
#include "autograd/snapshot.h"

namespace rush {
namespace {

void check_can_be_saved(const Tensor& t) {
  check(!t.impl()->has(TensorImpl::kInference), ErrorKind::Runtime, "backward",
        "a tensor of shape ", t.sizes(),
        " made under inference_mode() would have to be saved for backward, but nothing counts its "
        "versions; clone() it to get a normal tensor, or use no_grad() instead");
}

}  // namespace

SavedTensor::SavedTensor(const Tensor& t) : version_(t.defined() ? t.version() : 0) {
  if (!t.defined()) return;
  check_can_be_saved(t);
  const bool wanted = is_tracked(t) && requires_grad(t);
  grad_fn_ = wanted ? rush::grad_fn(t) : nullptr;
  is_original_ = wanted && !grad_fn_;
  if (is_original_ || t.is_wrapped_number()) {
    data_ = t;  // the leaf itself: its gradient must reach its .grad. Or a number, which stays one
  } else {
    // Keeping t itself would close a circle if t is written to later: its history then leads
    // through this node.
    data_ = alias_of(t);
    if (grad_fn_) slot_ = grad_meta(t).slot;
    if (forward_active()) carry_tangents(t, data_);
  }
  const bool hooked = t_modes & (kSavedTensorHooks | kDefer) && !t.is_wrapped_number();
  if (hooked || SnapshotScope::is_open()) [[unlikely]]
    pack_in_scope();
}

SavedTensor SavedTensor::output(const Tensor& t, uint32_t slot) {
  check_can_be_saved(t);
  SavedTensor s;
  s.data_ = alias_of(t);
  if (forward_active()) carry_tangents(t, s.data_);
  s.version_ = t.version();
  s.slot_ = slot;
  s.is_output_ = true;
  if (t_modes & (kSavedTensorHooks | kDefer) || SnapshotScope::is_open()) [[unlikely]]
    s.pack_in_scope();
  return s;
}

void SavedTensor::pack_in_scope() {
  if (const Ref<SavedTensorHooks> hooks = current_saved_tensor_hooks()) return pack(*hooks);
  if (is_original_) {  // leaves that backward needs stay as they are
    if (!is_arranged(data_)) data_.storage()->mark(Storage::kKept);
    return;
  }
  packed_ = SnapshotScope::is_open() ? Snapshot::of(data_) : Remade::of(data_);
  if (packed_) data_ = Tensor();
}

void SavedTensor::pack(SavedTensorHooks& hooks) {
  if (packed_) data_ = packed_->unpack();  // (no user's is packed twice)
  // The bytes may go elsewhere, so the way back to a leaf is kept apart from them.
  if (is_original_) grad_fn_ = AccumulateGrad::of(data_);
  packed_ = hooks.pack(alias_of(data_));
  data_ = Tensor();
  is_original_ = false;
}

Tensor SavedTensor::unpack(const Node* owner, bool with_history) const {
  if (released_) {
    fail(ErrorKind::Runtime, "backward", "the tensors that ", owner->name(),
         at_source(owner->source()), " saved for its gradient are gone: an earlier backward",
         at_source(owner->released_at()),
         " freed them. Pass retain_graph=True to the earlier call");
  }
  if (!defined()) return {};
  const Tensor unpacked = packed_ ? packed_->unpack() : data_;
  const Snapshot* snapshot = as_snapshot(packed_);
  // What the user's functions give back has no version to compare.
  const bool has_version = !packed_ || !packed_->is_users();
  if (snapshot ? snapshot->was_overwritten() : has_version && unpacked.version() != version_) {
    const VersionCounter& v = *unpacked.version_counter();
    fail(ErrorKind::Runtime, "backward", "a tensor needed for the gradient of ", owner->name(),
         at_source(owner->source()), " (", is_output_ ? "its result" : "its input", ", shape ",
         unpacked.sizes(), ", ", unpacked.dtype(), ") was overwritten by ",
         v.writer() ? v.writer() : "an in-place operation", at_source(v.written_at()),
         ": it is at version ", unpacked.version(), ", version ", version_,
         " was saved. Write to a clone(), or use the operation that returns a new tensor");
  }
  if (is_original_ || !with_history || unpacked.is_wrapped_number()) return unpacked;
  Tensor t = alias_of(unpacked);
  if (forward_active()) carry_tangents(unpacked, t);
  if (is_output_ && !is_differentiable(t.dtype())) return t;  // the indices of max(), say
  if (is_output_) {
    set_history(t, Ref<Node>::share(const_cast<Node*>(owner)), slot_);
  } else if (grad_fn_) {
    set_history(t, grad_fn_, slot_);
  }
  return t;
}

}  // namespace rush
