// reduce_f64.cpp: reductions of float64 tensors.
#include "cpu/kernels/reduce_float.h"

namespace rush {

namespace RUSH_ISA {
namespace {
constexpr FoldTable k_f64 = make_float_folds<double>();
}
}  // namespace RUSH_ISA

template <>
const FoldTable* fold_table<Isa::RUSH_ISA, double>() {
  return &RUSH_ISA::k_f64;
}

}  // namespace rush
