// copy.h: moving and converting elements on the CPU.
#pragma once

#include "core/tensor.h"

namespace rush {

// dst[i] = src[i], src broadcast to dst's shape, any type to any type. Floats become integers by
// truncation (saturating; NaN becomes 0), complex numbers keep their real part for real types.
void copy_cpu(const Tensor& src, const Tensor& dst);
void fill_cpu(const Tensor& dst, const Scalar& value);

// n elements, strides in bytes; the building block of copies and of loops with mixed types.
using ConvertFn = void (*)(char* dst, int64_t dst_stride, const char* src, int64_t src_stride,
                           int64_t n);
ConvertFn convert_fn(DType from, DType to);

// Plain bytes, in parallel and past the cache when there are many.
void copy_bytes(void* dst, const void* src, int64_t nbytes);

}  // namespace rush
