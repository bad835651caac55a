// data.h: the bytes of tensors, whatever the device: below autograd, without checks.
#pragma once

#include "core/tensor.h"

namespace rush {

// dst[...] = src[...], broadcast and converted. Nothing happens for meta tensors.
void copy_data(const Tensor& dst, const Tensor& src);
void fill_data(const Tensor& dst, const Scalar& value);
// A fresh tensor with the same values, in the given layout.
Tensor clone_data(const Tensor& src, MemoryFormat format = MemoryFormat::Preserve);
// The same values, contiguous: src itself when it already is.
Tensor contiguous_data(const Tensor& src);
Tensor convert_data(const Tensor& src, DType dtype);

}  // namespace rush
