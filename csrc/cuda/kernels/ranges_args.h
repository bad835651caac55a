// ranges_args.h: the arguments of ranges_exact.cu.
#pragma once

#include "cuda/kernels/args.h"

namespace rush {

struct ArangeArgs {
  i64 n;
  void* out;
  i64 whole_first, whole_step;
  double first, step;
  bool exact;  // count in the whole numbers; only for integral types
};

// Points from first to last, or powers of base with these exponents.
struct LinspaceArgs {
  i64 n;
  void* out;
  double first_re, first_im, last_re, last_im, base;
  bool powers;
};

}  // namespace rush
