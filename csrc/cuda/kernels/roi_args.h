// roi_args.h: the arguments of roi.cu and nms.cu.
#pragma once

#include "cuda/kernels/args.h"
#include "functors/roi.h"

namespace rush {

struct RoiArgs {
  RoiShape s;
  i64 n;                 // bins of all results
  const void *x, *rois;  // x: the gradient of the result in backward passes
  void* y;               // backward: sums of the images' gradient, in the type of computation
  i32* argmax;
  u64 launch;
  IndexFault* fault;  // null: the forward pass has reported boxes without an image
};

struct NmsArgs {
  i64 n, words;  // boxes; words of 64 bits that have one per box
  const void* boxes;
  u64* bits;  // (n, words): which boxes overlap with one that comes before them
  u64* gone;  // (words), zero before: which are not kept
  bool* keep;
  double limit;  // a number of the type of computation
};

}  // namespace rush
