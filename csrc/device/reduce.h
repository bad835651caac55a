// reduce.h: reductions over any set of dims, and running ones along one, by device.
//
// `out` has x's rank with size 1 in the reduced dims (keepdim shape); callers squeeze afterwards.
// Results are bit-equal for any number of threads. float32 sums run in short float blocks folded
// into double; float16 and bfloat16 go through float32; integers through int64.
#pragma once

#include <initializer_list>
#include <span>

#include "device/fns.h"
#include "device/reduce_fn.h"
#include "device/table.h"
#include "functors/fold_fns.h"

namespace rush {

using ParamSpan = std::span<const Scalar>;

struct ReduceLoops {
  // Sum, Mean and Prod compute in out's type: `out` int64 over int8 input does not wrap, and dtype=
  // needs no cast. ArgMax and ArgMin give the position among the reduced elements in row-major
  // order. NormP takes p. Max, Min and the arg forms propagate NaN; of equals the first wins.
  void (*reduce)(ReduceFn, const Tensor& x, const Tensor& out, ParamSpan) = nullptr;
  // A fold of functors/fold.h, over floating numbers.
  void (*fold)(FoldFn, const Tensor& x, const Tensor& out) = nullptr;
  // Variance (or its root) with divisor max(0, n - correction); complex input, real output.
  void (*var)(const Tensor& x, const Tensor& out, double correction, bool take_sqrt,
              const Tensor* mean_out) = nullptr;
  // Max or Min along one dim with the index of the first winner. `values` may be undefined.
  void (*arg)(ReduceFn, const Tensor& x, const Tensor& values, const Tensor& indices,
              int64_t dim) = nullptr;
  // out has x's shape; Sum and Prod compute in out's type. Max and Min also fill `indices` (int64)
  // when given; NaN wins and stays, of equals the last wins, as in PyTorch.
  void (*scan)(ScanFn, const Tensor& x, const Tensor& out, const Tensor* indices,
               int64_t dim) = nullptr;
  // A sum to `out`, which is_unborn(), whose last stage waits (device/deferred.h); `kept` is x's shape with
  // size 1 in the reduced dims. False: nothing was done.
  bool (*sum_later)(const Tensor& x, const Dims& kept, const Tensor& out) = nullptr;
};
extern DeviceTable<ReduceLoops> reduce_loops;

// The loops of x's device.
RUSH_API void reduce(ReduceFn fn, const Tensor& x, const Tensor& out,
                     std::initializer_list<Scalar> params = {});
RUSH_API void reduce(FoldFn fn, const Tensor& x, const Tensor& out);
RUSH_API void reduce_var(const Tensor& x, const Tensor& out, double correction, bool take_sqrt,
                         const Tensor* mean_out = nullptr);
RUSH_API void reduce_arg(ReduceFn fn, const Tensor& x, const Tensor& values, const Tensor& indices,
                         int64_t dim);
RUSH_API void scan(ScanFn fn, const Tensor& x, const Tensor& out, int64_t dim,
                   const Tensor* indices = nullptr);

// The type in which numbers of type t are folded.
inline DType wide_type(DType t) {
  if (category(t) <= Category::Integer) return DType::Int64;
  return compute_type(t);
}
// The type in which floating numbers are folded that may go to a wider output.
inline DType floating_fold_type(DType x, DType out) {
  return x == DType::Float64 || out == DType::Float64 ? DType::Float64 : DType::Float32;
}
// How many elements of x make one of out.
double folded_count(const Tensor& x, const Tensor& out);
// One part of a complex tensor, seen as a real tensor.
Tensor part_of(const Tensor& z, int64_t part);

}  // namespace rush
