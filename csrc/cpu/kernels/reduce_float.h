// reduce_float.h: every fold over one floating type.
#pragma once

#include "cpu/kernels/reduce_moments.h"

namespace rush::RUSH_ISA {

template <class T>
constexpr FoldTable make_float_folds() {
  FoldTable t;
  auto at = [&](Fold f) -> FoldKernel& { return t.folds[static_cast<int>(f)]; };
  at(Fold::Sum) = fold_kernel<SumFold<T>>();
  at(Fold::Mean) = fold_kernel<MeanFold<T>>();
  at(Fold::Prod) = fold_kernel<ProdFold<T>>();
  at(Fold::Max) = fold_kernel<ExtremeFold<T, true>>();
  at(Fold::Min) = fold_kernel<ExtremeFold<T, false>>();
  at(Fold::Norm1) = fold_kernel<Norm1Fold<T>>();
  at(Fold::Norm2) = fold_kernel<Norm2Fold<T>>();
  at(Fold::NormInf) = fold_kernel<ExtremeFold<T, true, true>>();
  at(Fold::NormNegInf) = fold_kernel<ExtremeFold<T, false, true>>();
  at(Fold::NormP) = custom_kernel<NormPFold<T>, NormPFold<T>>();
  at(Fold::Var) = custom_kernel<VarFold<T>, VarFold<T>>();
  t.arg_max = ArgLoops<T, true>::kernel();
  t.arg_min = ArgLoops<T, false>::kernel();
  return t;
}

}  // namespace rush::RUSH_ISA
