// triangular.h: Cholesky's factorisation and triangular systems over batches of small matrices.
#pragma once

#include "core/tensor.h"

namespace rush {

// All tensors are contiguous float64 on the CPU; the last two dims are the matrices'.
// a becomes its lower factor (zeros above); info[m] the order of the first minor of matrix m that
// is not positive, or 0.
void cholesky_cpu(const Tensor& a, const Tensor& info);
// b becomes x with a x = b.
void solve_triangular_cpu(const Tensor& a, bool upper, bool unit, const Tensor& b);

}  // namespace rush
