// low_bits.h: products with weights of 4 and 8 bits, on a device.
#pragma once

#include "device/table.h"

namespace rush {

// All tensors are contiguous where nothing else is said. Each function says false where it does not
// serve the operands it was given: take another way. Null: the device has none.
struct LowBitsLoops {
  // out (m, n) = (x (m, k) @ w.T) * scales, w (n, k) int8, scales (n). x, scales and out have one
  // floating type.
  bool (*int8_rows)(const Tensor& x, const Tensor& w, const Tensor& scales,
                    const Tensor& out) = nullptr;
  // out (m, n) = x (m, k) @ w.T, where w is a number of 4 bits less 8, times the scale of its group
  // of `group` numbers, plus its zero. scales_and_zeros is (k / group, n, 2), of x's type.
  // Tiles: int32 (n / 8, k / (16 i), 32, i / 2), see kernels/weight_only.cu.
  bool (*int4_tiles)(const Tensor& x, const Tensor& packed, int64_t group,
                     const Tensor& scales_and_zeros, const Tensor& out) = nullptr;
  // Columns: uint8 (n, k / 2), see kernels/weight_only.cpp.
  bool (*int4_columns)(const Tensor& x, const Tensor& packed, int64_t group,
                       const Tensor& scales_and_zeros, const Tensor& out) = nullptr;
  // out (m, n) = a (m, k) @ b (k, n), float8 by float8 to a floating type, or int8 by int8 to int32;
  // b's columns lie end to end. Scales and bias are undefined where there are none; a scale is one
  // float32 or, `by_rows`, one for each row of a and each column of b.
  bool (*byte_product)(const Tensor& a, const Tensor& b, const Tensor& scale_a,
                       const Tensor& scale_b, const Tensor& bias, const Tensor& out, bool by_rows,
                       bool fast_accumulation) = nullptr;
};
inline constinit DeviceTable<LowBitsLoops> low_bits_loops;

}  // namespace rush
