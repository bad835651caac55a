#include "ops/value.h"

namespace rush {

void Value::own(std::vector<Tensor> v) {
  reset();
  // The list lives in one array of its own; `reset` frees it.
  auto* data = v.empty() ? nullptr : new Tensor[v.size()];
  std::move(v.begin(), v.end(), data);
  u_.list = {data, v.size()};
  tag_ = Tag::Tensors;
  owned_ = true;
}

void Value::reset() {
  if (owned_) {
    if (tag_ == Tag::Tensor) u_.tensor->release();
    if (tag_ == Tag::Tensors) delete[] static_cast<const Tensor*>(u_.list.data);
  }
  owned_ = false;
  tag_ = Tag::None;
}

}  // namespace rush
