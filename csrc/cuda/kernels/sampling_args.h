// sampling_args.h: the arguments of sampling_exact.cu.
#pragma once

#include "cuda/kernels/args.h"

namespace rush {

struct SamplingArgs {
  i64 n;
  const double *a, *b;
  double* out;
  u64 seed, call;
  const u64* state;  // see random_key
};

}  // namespace rush
