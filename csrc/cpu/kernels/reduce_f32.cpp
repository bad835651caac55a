// reduce_f32.cpp: reductions of float32 tensors, and through them float16 and bfloat16.
#include "cpu/kernels/reduce_float.h"

namespace rush {

namespace RUSH_ISA {
namespace {
constexpr FoldTable k_f32 = make_float_folds<float>();
}
}  // namespace RUSH_ISA

template <>
const FoldTable* fold_table<Isa::RUSH_ISA, float>() {
  return &RUSH_ISA::k_f32;
}

}  // namespace rush
