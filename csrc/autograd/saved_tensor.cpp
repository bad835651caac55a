#include "autograd/saved_tensor.h"

namespace rush {

SavedTensor::SavedTensor(const Tensor& t) : version_(t.defined() ? t.version() : 0) {
  if (!t.defined()) return;
  grad_fn_ = is_tracked(t) ? rush::grad_fn(t) : nullptr;
  is_original_ = !grad_fn_;
  if (is_original_) {
    data_ = t;
  } else {
    // Keeping t itself would close a circle if t is written to later: its history then leads
    // through this node.
    data_ = detached(t);
    slot_ = grad_meta(t).slot;
    if (forward_active()) carry_tangents(t, data_);
  }
}

SavedTensor SavedTensor::output(const Tensor& t, uint32_t slot) {
  SavedTensor s;
  s.data_ = detached(t);
  if (forward_active()) carry_tangents(t, s.data_);
  s.version_ = t.version();
  s.slot_ = slot;
  s.is_output_ = true;
  return s;
}

Tensor SavedTensor::unpack(const Node* owner) const {
  if (released_) {
    fail(ErrorKind::Runtime, "backward", "the tensors saved by ", owner->name(),
         " were already freed: backward ran a second time through this graph. Pass "
         "retain_graph=True to the first call");
  }
  if (!data_.defined()) return {};
  if (data_.version() != version_) {
    const char* writer = data_.version_counter()->writer();
    fail(ErrorKind::Runtime, "backward", "a tensor that ", owner->name(),
         " saved for its gradient (shape ", data_.sizes(), ", ", data_.dtype(),
         ") was overwritten by an in-place operation",
         writer ? concat(" (", writer, ")") : std::string(), ": it is at version ", data_.version(),
         ", version ", version_, " was expected. Write to a clone() instead");
  }
  if (is_original_) return data_;
  Tensor t = detached(data_);
  if (forward_active()) carry_tangents(data_, t);
  if (is_output_) {
    set_history(t, Ref<Node>::share(const_cast<Node*>(owner)), slot_);
  } else if (grad_fn_) {
    set_history(t, grad_fn_, slot_);
  }
  return t;
}

}  // namespace rush
