// tensor_core.h (NVRTC): matrix products of a warp.
//
// Note [Fragments]
// Thread 4 * g + t of a warp holds, of
// - a (16 x 16 numbers of two bytes), as four words: rows g and g + 8 of the first half of the
//   columns, then of the second; of each the t-th word;
// - b (16 x 8), two words: column g, the t-th word of either half of the rows;
// - c (16 x 8 floats): row g, columns 2t and 2t + 1, then row g + 8.
// tests/cpp/tensor_core_on_cpu.h has the same functions for the tests.
#pragma once

#include "cuda/kernels/async_copy.h"

#ifndef RUSH_TENSOR_CORE_ON_CPU

namespace rush {

// Four 8 x 8 matrices of two-byte elements (rows of 16 bytes): thread i names the row i % 8 of
// matrix i / 8, and gets the t-th word of row g of each.
RUSH_FN void load_matrices(u32 (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row)));
}
// The same, each matrix transposed.
RUSH_FN void load_transposed(u32 (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row)));
}

// c += a @ b; the first argument only names the type.
RUSH_FN void multiply_add(half, float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
RUSH_FN void multiply_add(bfloat16, float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Two numbers in one word, the first one below.
RUSH_FN u32 pair_of(half, float a, float b) {
  u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
  return r;
}
RUSH_FN u32 pair_of(bfloat16, float a, float b) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
  return r;
}

RUSH_FN float from_lane(float x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
RUSH_FN u32 word_of_lane(u32 x, u32 lane) { return __shfl_sync(0xffffffffu, x, lane); }

}  // namespace rush

#endif

namespace rush {

// Over the four threads that share a row of c.
RUSH_FN float row_sum(float x) {
  x += from_lane(x, 1);
  return x + from_lane(x, 2);
}
RUSH_FN float row_max(float x) {
  const float y = from_lane(x, 1);
  x = y > x ? y : x;
  const float z = from_lane(x, 2);
  return z > x ? z : x;
}

}  // namespace rush
