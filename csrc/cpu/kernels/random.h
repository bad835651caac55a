// random.h: the random loops that every instruction set provides.
#pragma once

#include <cstdint>

#include "core/generator.h"

namespace rush {

inline constexpr int kRandomFns = 7;
// All loops start at a multiple of this many numbers.
inline constexpr int64_t kRandomBatch = 256;

struct RandomKernels {
  // `mask` drops low bits of each word, for targets with fewer bits than float32.
  void (*f32[kRandomFns])(float* out, int64_t first, int64_t n, RandomCall call, double a, double b,
                          uint32_t mask);
  void (*f64[kRandomFns])(double* out, int64_t first, int64_t n, RandomCall call, double a,
                          double b);
  void (*integers)(int64_t* out, int64_t first, int64_t n, RandomCall call, int64_t from,
                   uint64_t range);
};

namespace baseline {
extern const RandomKernels random_kernels;
}
namespace avx2 {
extern const RandomKernels random_kernels;
}
namespace avx512 {
extern const RandomKernels random_kernels;
}

}  // namespace rush
