// convert_tables.h: what the kernel files for copies export.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace rush {

struct Number;

using ConvertFn = void (*)(char* dst, int64_t dst_stride, const char* src, int64_t src_stride,
                           int64_t n);
// Floats that are rounded to a half type, and are floats again. An ElementFn (tables.h) without
// params: ptrs[1] may be ptrs[0].
using RoundFn = void (*)(char* const* ptrs, int64_t n, const Number* params);
inline constexpr int kTypes = kDTypeCount;

// Indexed [from][to]; null where this table has nothing.
struct ConvertTable {
  ConvertFn fn[kTypes][kTypes];
  RoundFn to_half, to_bfloat16;
};

struct ByteKernels {
  // Writes past the caches.
  void (*stream)(char* dst, const char* src, int64_t nbytes);
  // n times the same element, end to end; by log2 of the width.
  void (*fill[5])(char* dst, const char* value, int64_t n);
  // dst[i] = src[-i], by log2 of the width.
  void (*reverse[5])(char* dst, const char* src, int64_t n);
  // dst[i][j] = src[j][i]; row strides in bytes, elements end to end on both sides; by log2 of the
  // width.
  void (*transpose[5])(char* dst, int64_t dst_row, const char* src, int64_t src_row, int64_t rows,
                       int64_t cols);
};

namespace baseline {
extern const ConvertTable strided_conversions, flat_conversions;
extern const ByteKernels byte_kernels;
}  // namespace baseline
namespace avx2 {
extern const ConvertTable flat_conversions;
extern const ByteKernels byte_kernels;
}  // namespace avx2
namespace avx512 {
extern const ConvertTable flat_conversions;
extern const ByteKernels byte_kernels;
}  // namespace avx512

}  // namespace rush
