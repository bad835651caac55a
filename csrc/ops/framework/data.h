// data.h: the bytes of tensors, whatever the device: below autograd, without checks.
#pragma once

#include "core/tensor.h"

namespace rush {

// dst[...] = src[...], broadcast and converted, from any device to any. Nothing happens for meta
// tensors. `non_blocking`: a copy from pinned memory to a GPU is not waited for.
void copy_data(const Tensor& dst, const Tensor& src, bool non_blocking = false);
void fill_data(const Tensor& dst, const Scalar& value);
// A fresh tensor with the same values, in the given layout.
Tensor clone_data(const Tensor& src, MemoryFormat format = MemoryFormat::Preserve);
// The same values, contiguous: src itself when it already is.
Tensor contiguous_data(const Tensor& src);
Tensor convert_data(const Tensor& src, DType dtype);
// The same values in the host's memory: src itself unless its device has memory of its own.
Tensor host_data(const Tensor& src);
// The same values on a device: src itself when it is there.
Tensor placed(const Tensor& src, Device device);

}  // namespace rush
