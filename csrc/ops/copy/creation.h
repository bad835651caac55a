// creation.h: what factories share.
#pragma once

#include "ops/framework/op.h"

namespace rush {

// A fresh tensor for a factory: defaults filled in, arguments checked.
Tensor fresh(const char* op, IntList size, std::optional<DType> dtype, std::optional<Device> device,
             bool pin_memory);
// The same for *_like factories.
Tensor fresh_like(const char* op, const Tensor& self, std::optional<DType> dtype,
                  std::optional<Device> device, bool pin_memory,
                  std::optional<MemoryFormat> format);
// Marks a factory's result as a leaf that requires grad, if asked for.
inline Tensor finished(Tensor t, bool requires_grad) {
  if (requires_grad) set_requires_grad(t, true);
  return t;
}

}  // namespace rush
