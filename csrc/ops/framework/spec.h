// spec.h: what a result will look like, decided by an op's `check` before anything is written.
#pragma once

#include <array>

#include "core/tensor.h"

namespace rush {

struct Spec {
  Dims sizes;
  DType dtype;
  Device device{};
  Dims strides{};  // empty: contiguous

  Tensor allocate() const {
    return strides.empty() ? make_tensor(sizes, dtype, device)
                           : make_tensor(sizes, strides, dtype, device);
  }
};

// The device of a call: that of its tensors, which must agree; 0-d CPU tensors mix with any device.
RUSH_API Device common_device(std::string_view op, std::initializer_list<const Tensor*> tensors);

// Same sizes, device and layout as x, with this dtype.
RUSH_API Spec like(const Tensor& x, DType dtype);
inline Spec like(const Tensor& x) { return like(x, x.dtype()); }
// The spec of a pointwise result: broadcast sizes, layout of the inputs where they agree.
RUSH_API Spec pointwise(std::string_view op, const Tensor& a, const Tensor& b, DType dtype);
RUSH_API Spec pointwise(std::string_view op, const Tensor& a, const Tensor& b, const Tensor& c,
                        DType dtype);

// Integer and bool inputs count as the default float; for exp, mean, true division, ...
inline DType float_type(DType t) { return is_differentiable(t) ? t : default_dtype(); }

}  // namespace rush
