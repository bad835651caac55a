// ranges_args.h: the arguments of ranges_exact.cu.
#pragma once

#include "cuda/kernels/args.h"

namespace rush {

struct CountUpArgs {
  i64 n;
  void* out;
  i64 whole_first, whole_step;
  double first, step;
};

// Points from first to last; base > 0: powers of it.
struct SpreadArgs {
  i64 n;
  void* out;
  double first_re, first_im, last_re, last_im, base;
};

}  // namespace rush
