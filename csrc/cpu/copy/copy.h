// copy.h: moving and converting elements on the CPU.
#pragma once

#include "core/tensor.h"
#include "cpu/kernels/convert_tables.h"

namespace rush {

// dst[i] = src[i], src broadcast to dst's shape, any type to any type. Floats become integers by
// truncation (out of range, and NaN: the lowest value, cut to the width, as x86 does in hardware);
// complex numbers keep their real part for real types.
RUSH_API void copy_cpu(const Tensor& src, const Tensor& dst);
RUSH_API void fill_cpu(const Tensor& dst, const Scalar& value);

// n elements, strides in bytes; the building block of copies and of loops with mixed types.
RUSH_API ConvertFn convert_fn(DType from, DType to);
// From float32 to a half type and back.
RoundFn round_fn(DType half_type);

// Results of this size and more are written past the caches (measured).
inline constexpr int64_t kStreamBytes = 8 << 20;
// Bytes a thread must have; one core moves them in about 10 microseconds.
inline constexpr int64_t kByteGrain = 128 << 10;
// Writes past the caches: for results that nobody would find there anyway.
void stream_bytes(char* dst, const char* src, int64_t nbytes);
// Plain bytes, in parallel and past the cache when there are many.
void copy_bytes(void* dst, const void* src, int64_t nbytes);

}  // namespace rush
