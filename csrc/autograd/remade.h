// remade.h: a saved tensor that may be computed again instead of being kept: Note [What is made
// again] in device/again.h.
#pragma once

#include "autograd/saved_hooks.h"
#include "device/again.h"

namespace rush {

class Remade final : public PackedTensor {
 public:
  // In a compiled function; null: the tensor is saved plainly.
  static Ref<PackedTensor> of(const Tensor& t);
  ~Remade() override { again_->drop_save(); }
  // Another tensor each time, with the version counter of the one that was saved.
  Tensor unpack() override;
  bool is_users() const override { return false; }

 private:
  Remade(std::shared_ptr<deferred::Again> again, const Tensor& t);
  std::shared_ptr<deferred::Again> again_;
  Dims strides_;
  Ref<VersionCounter> version_;
};

}  // namespace rush
