// saved_tensor.h: a tensor that backward will read, with the version it had.
#pragma once

#include "autograd/meta.h"
#include "autograd/saved_hooks.h"

namespace rush {

class RUSH_API SavedTensor {
 public:
  SavedTensor() = default;
  // An input of the node being made.
  explicit SavedTensor(const Tensor& t);
  // A result of the node being made. Note [A node must not own its output]: only the bytes are
  // kept, and the edge back to the node is set again when it is read; tensor -> node -> tensor
  // would never be freed.
  static SavedTensor output(const Tensor& t, uint32_t slot);

  bool defined() const { return data_.defined() || packed_; }
  // The tensor as it was, or an error that names the writer when it was overwritten since. `owner`
  // is the node.
  Tensor unpack(const Node* owner) const { return unpack(owner, grad_enabled()); }
  // Whether the history is connected to it again; formulas that record nothing do not need it.
  Tensor unpack(const Node* owner, bool with_history) const;
  void reset() { *this = SavedTensor(), released_ = true; }
  bool released() const { return released_; }

  // Hands the bytes to these functions, as those of a saved_tensors_hooks scope are given them.
  void pack(SavedTensorHooks& hooks);
  const Tensor& bytes() const { return data_; }                // undefined once they are packed
  const Ref<PackedTensor>& packed() const { return packed_; }  // null unless they are

 private:
  void pack_in_scope();

  Tensor data_;               // detached unless the input was a leaf
  Ref<PackedTensor> packed_;  // in place of data_
  Ref<Node> grad_fn_;         // of an input that is not a leaf
  uint32_t slot_ = 0;
  uint32_t version_ = 0;
  bool is_output_ = false;
  bool is_original_ = false;
  bool released_ = false;
};

}  // namespace rush
