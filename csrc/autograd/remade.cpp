#include "autograd/remade.h"

#include "autograd/forward.h"
#include "core/layout.h"
#include "core/modes.h"

namespace rush {

Ref<PackedTensor> Remade::of(const Tensor& t) {
  if (!(t_modes & kDefer) || t.is_meta() || t.is_batched() || forward_active()) return nullptr;
  auto again = deferred::save_again(t);
  return again ? Ref<PackedTensor>::adopt(new Remade(std::move(again), t)) : nullptr;
}

Remade::Remade(std::shared_ptr<deferred::Again> again, const Tensor& t)
    : again_(std::move(again)), strides_(t.strides()), version_(t.version_counter()) {
  again_->add_save();
}

Tensor Remade::unpack() {
  const Tensor out = over_pending(deferred::form_again(again_), strides_);
  out.impl()->version = version_;
  return out;
}

}  // namespace rush
