// scan.h: running sums, products, extremes and log-sum-exps along one dim.
#pragma once

#include "core/tensor.h"
#include "cpu/kernels/scan_tables.h"  // ScanFn: Sum, Prod, Max, Min, LogSumExp

namespace rush {

// out has x's shape; Sum and Prod compute in out's type. Max and Min also fill `indices` (int64)
// when given; NaN wins and stays, of equals the last wins, as in PyTorch.
RUSH_API void scan(ScanFn fn, const Tensor& x, const Tensor& out, int64_t dim,
                   const Tensor* indices = nullptr);

}  // namespace rush
