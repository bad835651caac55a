// sampling.h: what sampling_exact.cpp exports for each instruction set.
#pragma once

#include <cstdint>

#include "core/generator.h"

namespace rush {

// out[i], i < n: element first + i, with parameters a[i] (and b[i]).
using SampleFn = void (*)(const double* a, const double* b, double* out, int64_t first, int64_t n,
                          RandomCall call);
struct SamplingKernels {
  SampleFn samples[3];  // by SamplingFn
  void (*gamma_derivative)(const double* a, const double* x, double* out, int64_t n);
};

namespace baseline {
extern const SamplingKernels sampling_kernels;
}
namespace avx2 {
extern const SamplingKernels sampling_kernels;
}
namespace avx512 {
extern const SamplingKernels sampling_kernels;
}

}  // namespace rush
