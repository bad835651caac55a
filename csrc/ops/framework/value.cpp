#include "ops/framework/value.h"

namespace rush {

void Value::own(std::vector<Tensor> v) {
  reset();
  // The list lives in one array of its own; `free_owned` frees it.
  auto* data = v.empty() ? nullptr : new Tensor[v.size()];
  std::move(v.begin(), v.end(), data);
  u_.list = {data, v.size()};
  tag_ = Tag::Tensors;
  owned_ = true;
}

void Value::free_owned() {
  if (tag_ == Tag::Tensor) u_.tensor->release();
  if (tag_ == Tag::Tensors) delete[] static_cast<const Tensor*>(u_.list.data);
  owned_ = false;
}

}  // namespace rush
