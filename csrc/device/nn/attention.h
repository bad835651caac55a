// attention.h: softmax(q k^T * scale + mask) v on a device, forward and backward, in memory that
// grows with the number of queries and keys, not with their product.
//
// - q, out, lse and mask have the same leading dims (expand them); k and v too, but for the last
//   of them: q may have a multiple of their heads, neighbours sharing keys and values.
// - float32, float64, float16 or bfloat16; the last dim of every operand lies end to end.
// - The mask is bool or of the accumulator's type (float32, or float64), with any strides; where
//   `half_masks` says so, it may be of q's type.
// - lse, the logarithm of each row's sum of exponentials, is of the accumulator's type, contiguous.
#pragma once

#include "core/generator.h"
#include "device/table.h"

namespace rush {

// More keys than any query is away from; sums of it and lengths do not overflow.
inline constexpr int64_t kEveryKey = int64_t(1) << 60;

struct AttentionOptions {
  double scale;
  bool causal;
  double dropout;
  RandomCall call;
  // Query i sees the keys from i - before to i + after; for devices that know windows.
  int64_t before = kEveryKey, after = kEveryKey;
  bool varied = false;  // one of many calls of ever other lengths, for which no plan pays
};

// Ways to compute attention that programs may allow and forbid (nn.attention.sdpa_kernel), as bits.
enum AttentionBackend : uint32_t {
  kMathAttention = 1,       // composed of ops
  kFlashAttention = 2,      // our kernels; both words mean them
  kEfficientAttention = 4,  // on GPUs
  kCudnnAttention = 8,
};
RUSH_API uint32_t attention_backends();
RUSH_API void set_attention_backends(uint32_t bits);

// A call, as far as it decides who serves it.
struct AttentionCase {
  DType dtype;
  int64_t width, value_width;
  bool plain;  // neither mask nor dropout
  uint32_t backends;
};

// What all of this is computed in.
inline DType attention_accumulator(DType t) {
  return t == DType::Float64 ? DType::Float64 : DType::Float32;
}

struct AttentionLoops {
  // Which calls the next two serve; the others are composed of ops.
  bool (*takes)(const AttentionCase& c) = nullptr;
  void (*forward)(const AttentionOptions& o, const Tensor& q, const Tensor& k, const Tensor& v,
                  const Tensor& mask, const Tensor& out, const Tensor& lse) = nullptr;
  void (*backward)(const AttentionOptions& o, const Tensor& g, const Tensor& q, const Tensor& k,
                   const Tensor& v, const Tensor& mask, const Tensor& out, const Tensor& lse,
                   const Tensor& gq, const Tensor& gk, const Tensor& gv) = nullptr;
  // The weights themselves, after dropout, contiguous and of the accumulator's type: (..., queries,
  // keys), or their average over the last leading dim, which `to` lacks then. Null: with weights,
  // all is composed of ops.
  void (*weights)(const AttentionOptions& o, const Tensor& q, const Tensor& k, const Tensor& mask,
                  const Tensor& lse, bool average, const Tensor& to) = nullptr;
  // For (..., queries, keys) weights: 0 where dropout takes one away, else 1 / (1 - dropout).
  void (*kept)(const AttentionOptions& o, const Tensor& to) = nullptr;
  bool knows_windows = false;  // else they come as masks
  bool half_masks = false;
};
inline constinit DeviceTable<AttentionLoops> attention_loops;

// Would a fused kernel of the device take such a call?
RUSH_API bool takes_attention(const Tensor& query, const AttentionCase& c);

}  // namespace rush
