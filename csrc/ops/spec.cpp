#include "ops/spec.h"

namespace rush {
namespace {

// The layout of a fresh pointwise result: that of the first full-sized input.
void choose_layout(Spec& spec, std::initializer_list<const Tensor*> inputs) {
  for (const Tensor* t : inputs) {
    if (t->dim() == 0 || !(t->sizes() == spec.sizes)) continue;
    if (!t->is_contiguous()) spec.strides = preserved_strides(t->sizes(), t->strides());
    return;
  }
}

}  // namespace

Device common_device(std::string_view op, std::initializer_list<const Tensor*> tensors) {
  const Tensor* decisive = nullptr;
  for (const Tensor* t : tensors) {
    if (!t->defined()) continue;
    if (!decisive) {
      decisive = t;
    } else if (!(t->device() == decisive->device())) {
      if (decisive->dim() == 0 && decisive->is_cpu()) {
        decisive = t;
      } else if (!(t->dim() == 0 && t->is_cpu())) {
        fail(ErrorKind::Device, op, "all tensors must be on one device, got ", decisive->device(),
             " and ", t->device(), ": move them with .to(device)");
      }
    }
  }
  return decisive ? decisive->device() : Device{};
}

Spec like(const Tensor& x, DType dtype) {
  Spec spec{x.sizes(), dtype, x.device()};
  if (!x.is_contiguous()) spec.strides = preserved_strides(x.sizes(), x.strides());
  return spec;
}

Spec pointwise(std::string_view op, const Tensor& a, const Tensor& b, DType dtype) {
  const Device device = a.device() == b.device() ? a.device() : common_device(op, {&a, &b});
  if (a.is_contiguous() && (b.dim() == 0 || (b.is_contiguous() && a.sizes() == b.sizes())))
      [[likely]] {
    return {a.sizes(), dtype, device};
  }
  Spec spec{broadcast_shapes(op, a.sizes(), b.sizes()), dtype, device};
  choose_layout(spec, {&a, &b});
  return spec;
}

Spec pointwise(std::string_view op, const Tensor& a, const Tensor& b, const Tensor& c,
               DType dtype) {
  Spec spec{broadcast_shapes(op, broadcast_shapes(op, a.sizes(), b.sizes()), c.sizes()), dtype,
            common_device(op, {&a, &b, &c})};
  choose_layout(spec, {&a, &b, &c});
  return spec;
}

}  // namespace rush
