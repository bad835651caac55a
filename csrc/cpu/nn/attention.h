// attention.h: softmax(q k^T * scale + mask) v on the CPU, forward and backward, in memory that
// grows with the number of queries and keys, not with their product.
//
// - q, out, lse and mask have the same leading dims (expand them); k and v too, but for the last
//   of them: q may have a multiple of their heads, neighbours sharing keys and values.
// - float32, float64, float16 or bfloat16; the last dim of every operand lies end to end.
// - The mask is bool or of the accumulator's type (float32, or float64), with any strides.
// - lse, the logarithm of each row's sum of exponentials, is of the accumulator's type, contiguous.
#pragma once

#include "core/generator.h"
#include "core/tensor.h"

namespace rush {

struct AttentionOptions {
  double scale;
  bool causal;
  double dropout;
  RandomCall call;
};

void attention_cpu(const AttentionOptions& o, const Tensor& q, const Tensor& k, const Tensor& v,
                   const Tensor& mask, const Tensor& out, const Tensor& lse);
void attention_backward_cpu(const AttentionOptions& o, const Tensor& g, const Tensor& q,
                            const Tensor& k, const Tensor& v, const Tensor& mask, const Tensor& out,
                            const Tensor& lse, const Tensor& gq, const Tensor& gk,
                            const Tensor& gv);
// The weights themselves, after dropout, contiguous and of the accumulator's type: (..., queries,
// keys), or their average over the last leading dim, which `to` lacks then.
void attention_weights_cpu(const AttentionOptions& o, const Tensor& q, const Tensor& k,
                           const Tensor& mask, const Tensor& lse, bool average, const Tensor& to);
// For (..., queries, keys) weights: 0 where dropout takes one away, else 1 / (1 - dropout).
void attention_kept_cpu(const AttentionOptions& o, const Tensor& to);

// What all of this is computed in.
inline DType attention_accumulator(DType t) {
  return t == DType::Float64 ? DType::Float64 : DType::Float32;
}

}  // namespace rush
