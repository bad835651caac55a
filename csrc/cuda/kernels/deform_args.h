// deform_args.h: the arguments of deform.cu.
#pragma once

#include "cuda/kernels/args.h"
#include "functors/deform.h"

namespace rush {

// Absent tensors are null.
struct DeformArgs {
  DeformShape s;
  const void *x, *offset, *mask, *g;
  void *columns, *gx, *goffset, *gmask;  // gx: in the type of computation, zero before
};

}  // namespace rush
