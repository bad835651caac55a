// reduce_fn.h: the folds that reductions are made of, by name, for ops, loops and kernel tables.
#pragma once

#include <cstdint>

namespace rush {

enum class ReduceFn : uint8_t {
  Sum,
  Mean,
  Prod,
  Max,
  Min,
  ArgMax,
  ArgMin,
  Any,
  All,
  CountNonzero,
  Norm0,
  Norm1,
  Norm2,
  NormInf,
  NormNegInf,
  NormP,
  Var,  // this and Std: only through ReduceLoops::var, which takes more arguments
  Std,
  kCount,
};

}  // namespace rush
