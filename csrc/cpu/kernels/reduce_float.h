// reduce_float.h: every fold over one floating type.
#pragma once

#include "cpu/kernels/reduce_moments.h"

namespace rush::RUSH_ISA {

template <class T>
constexpr FoldTable make_float_folds() {
  FoldTable t;
  auto at = [&](ReduceFn f) -> FoldKernel& { return t.folds[static_cast<int>(f)]; };
  at(ReduceFn::Sum) = fold_kernel<SumFold<T>>();
  at(ReduceFn::Mean) = fold_kernel<MeanFold<T>>();
  at(ReduceFn::Prod) = fold_kernel<ProdFold<T>>();
  at(ReduceFn::Max) = fold_kernel<ExtremeFold<T, true>>();
  at(ReduceFn::Min) = fold_kernel<ExtremeFold<T, false>>();
  at(ReduceFn::Norm1) = fold_kernel<Norm1Fold<T>>();
  at(ReduceFn::Norm2) = fold_kernel<Norm2Fold<T>>();
  at(ReduceFn::NormInf) = fold_kernel<ExtremeFold<T, true, true>>();
  at(ReduceFn::NormNegInf) = fold_kernel<ExtremeFold<T, false, true>>();
  at(ReduceFn::NormP) = custom_kernel<NormPFold<T>, NormPFold<T>>();
  at(ReduceFn::Var) = custom_kernel<VarFold<T>, VarFold<T>>();
  t.arg_max = ArgLoops<T, true>::kernel();
  t.arg_min = ArgLoops<T, false>::kernel();
  return t;
}

}  // namespace rush::RUSH_ISA
