// loops.h: what the GPU's loops share.
#pragma once

#include "core/tensor.h"
#include "cuda/kernels/args.h"

namespace rush::cuda {

// Numbers of the families, unique among them (launch.h). Pointwise kernels take 1, 2 and 3.
enum FamilyNumber : uint8_t {
  kCopyFamily = 4,
  kFillFamily,
  kTurnFamily,
  kReduceFamily,
  kMergeFamily,
  kRandomFamily,
  kRandomIntFamily,
  kMatmulFamily,
  kReadFamily,
  kOffsetsFamily,
  kCheckFamily,
  kScatterFamily,
  kOptimizerFamily,
  kRowNormFamily,
  kBatchNormFamily,
  kSoftmaxFamily,
  kPoolFamily,
  kDepthwiseFamily,
  kScanFamily,
  kTriangleFamily,
  kCatFamily,
  kSortFamily,
  kSelectFamily,
  kSelectLongFamily,
  kSelectRowsFamily,
  kMaskFamily,
  kSearchFamily,
  kSampleFamily,
  kDistinctFamily,
  kBetweenFamily,
  kCountingFamily,
  kOptimizerNumbersFamily,
  kCrossEntropyFamily,
  kLossFamily,
  kDropoutFamily,
  kGroupNormFamily,
  kEmbeddingFamily,
  kResampleFamily,
  kGridFamily,
  kCtcFamily,
  kFractionalPoolFamily,
  // Recurrent networks and attention.
  kPiecesFamily = 50,
  kCellFamily,
  kLstmStepFamily,
  kAttentionFamily,
  kSpecialFamily,
  kMatricesFamily,
  kFamilyCount,
};
static_assert(kFamilyCount <= 64);  // launch.cpp keeps six bits for them

Number to_number(const Scalar& s);

// dst[...] = src[...], broadcast and converted; either may be on the host. `non_blocking`: a copy
// from pinned memory is not waited for.
void copy(const Tensor& src, const Tensor& dst, bool non_blocking);
void fill(const Tensor& dst, const Scalar& value);
// An element that is zero is a fault: "op: rule".
void check_nonzero(const Tensor& x, const char* op, const char* rule);

// The same values: x itself where it is contiguous, or lies as `as` does.
inline Tensor contiguous(const Tensor& x) {
  if (x.is_contiguous()) return x;
  const Tensor out = make_tensor(x.sizes(), x.dtype(), x.device());
  copy(x, out, false);
  return out;
}
inline Tensor lying_like(const Tensor& as, const Tensor& x) {
  if (x.strides() == as.strides()) return x;
  const Tensor out = make_tensor(as.sizes(), as.strides(), x.dtype(), x.device());
  copy(x, out, false);
  return out;
}

}  // namespace rush::cuda
