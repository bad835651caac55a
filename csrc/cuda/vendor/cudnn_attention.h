// cudnn_attention.h: attention by cuDNN's fused engines, in half precision.
#pragma once

#include "core/dtype.h"
#include "cuda/kernels/args.h"

namespace rush::cuda::dnn {

// Is there a cuDNN whose graphs of attention need no helping hand? Before 9.10, some want minus
// infinity to be a finite number, and sums to be cleared beforehand.
bool has_attention();

// What cuDNN may be asked at all; there may still be no plan for it.
bool takes_attention(const AttentionArgs& a, int64_t batch, DType dtype);

// Fills what our own kernels would fill (cuda/kernels/attention.cu) from the same arguments: forward,
// or backward where they have a gradient `g`. False: cuDNN has no engine, and nothing was done.
bool run_attention(const AttentionArgs& a, int64_t batch, DType dtype, int device);

}  // namespace rush::cuda::dnn
