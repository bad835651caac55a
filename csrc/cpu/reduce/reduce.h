// reduce.h: reductions over any set of dims.
//
// `out` has x's rank with size 1 in the reduced dims (keepdim shape); callers squeeze afterwards.
// Results are bit-equal for any number of threads. float32 sums run in short float blocks folded
// into double; float16 and bfloat16 go through float32; integers through int64.
#pragma once

#include <initializer_list>

#include "core/tensor.h"

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
  LogSumExp,
};

// Sum, Mean and Prod compute in out's type: `out` int64 over int8 input does not wrap, and dtype=
// needs no cast. ArgMax and ArgMin give the position among the reduced elements in row-major order.
// NormP takes p. Max, Min and the arg forms propagate NaN; of equals the first wins.
RUSH_API void reduce(ReduceFn fn, const Tensor& x, const Tensor& out,
                     std::initializer_list<Scalar> params = {});

// Variance (or its root) with divisor max(0, n - correction); complex input, real output.
RUSH_API void reduce_var(const Tensor& x, const Tensor& out, double correction, bool take_sqrt,
                         const Tensor* mean_out = nullptr);

// Max or Min along one dim with the index of the first winner. `values` may be undefined.
RUSH_API void reduce_arg(ReduceFn fn, const Tensor& x, const Tensor& values, const Tensor& indices,
                         int64_t dim);

}  // namespace rush
