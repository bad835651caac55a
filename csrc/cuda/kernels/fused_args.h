// fused_args.h: the arguments of kernels that take several pointwise steps, see fused.h.
#pragma once

#include "cuda/kernels/args.h"

namespace rush {

inline constexpr int kMostFusedInputs = 16, kMostFusedOutputs = 8, kMostFusedSteps = 64;

struct FusedArgs {
  i64 n;  // elements; packs of them where the kernel walks over a nest
  void* out[kMostFusedOutputs];
  const void* in[kMostFusedInputs];
  // Of inputs that are numbers. Where there is a join, behind the last input: where its second
  // operand begins, along the dim that the nest has there for an input.
  Number numbers[kMostFusedInputs];
  u32 zeros[kMostFusedSteps];  // which the compiler does not know to be zero, see apart()
};

// The numbers of all functors, step by step.
template <int Count>
struct FusedParams {
  Number at[Count];
};

// Operand 0 stands for all outputs, i + 1 for input i.
template <class I>
using FusedNest = Nest<I, kMostFusedInputs + 1>;

}  // namespace rush
