// spelling.h: keys of the kernels that run functors of the op table, and how they are spelled.
#pragma once

#include <algorithm>
#include <string>

#include "cuda/runtime/launch.h"
#include "functors/fns.h"

namespace rush::cuda {

// A key: functor, compute type, mode (which is the family's own), then the types of output and
// inputs.
inline uint64_t pointwise_key(unsigned fn, DType compute, unsigned mode, const DType* types,
                              int operands) {
  uint64_t key = fn;
  key = key << 5 | unsigned(compute);
  key = key << 3 | mode;
  for (int i = 0; i < operands; ++i) key = key << 5 | unsigned(types[i]);
  return key;
}
template <int Inputs>
struct PointwiseKey {
  unsigned fn, mode;
  DType compute, types[Inputs + 1];
};
template <int Inputs>
PointwiseKey<Inputs> read_pointwise_key(uint64_t key) {
  PointwiseKey<Inputs> k;
  for (int i = Inputs; i >= 0; --i, key >>= 5) k.types[i] = DType(key & 31);
  k.mode = key & 7;
  k.compute = DType(key >> 3 & 31);
  k.fn = unsigned(key >> 8);
  return k;
}

// `how` is what stands between the compute type and the types of the operands.
inline std::string spell_pointwise(const char* kernel, const FnInfo& fn, DType compute,
                                   const std::string& how, const DType* types, int operands) {
  std::string text = concat("rush::", kernel, "<rush::functors::", fn.name);
  // Functors with numbers of their own are templates over the type they compute in.
  if (fn.params) text += concat("<", kernel_type(compute), ">");
  text += concat(", ", int(fn.params), ", ", kernel_type(compute), ", ", how);
  for (int i = 0; i < operands; ++i) text += concat(", ", stored_type(types[i]));
  return text + ">";
}
// A kernel over operands that lie end to end: the mode is the logarithm of the pack's width.
template <int Inputs>
std::string spell_flat(const char* kernel, const FnInfo& fn, const PointwiseKey<Inputs>& k) {
  return spell_pointwise(kernel, fn, k.compute, std::to_string(1 << k.mode), k.types, Inputs + 1);
}

// Elements of a pack: 16 bytes of the widest operand.
inline int pack_width(const DType* types, int operands) {
  int64_t widest = 1;
  for (int i = 0; i < operands; ++i) widest = std::max(widest, element_size(types[i]));
  return int(16 / widest);
}
inline bool is_aligned(const void* p, int64_t bytes) {
  return (reinterpret_cast<uintptr_t>(p) & uintptr_t(bytes - 1)) == 0;
}

}  // namespace rush::cuda
