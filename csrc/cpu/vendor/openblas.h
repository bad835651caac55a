// openblas.h: the few routines of OpenBLAS we use for products, opened at first use.
//
// OpenBLAS is always run on one thread, and callers cut the work for parallel_for: its own pool
// would compete with OpenMP's, spin after each call, and not survive a fork.
#pragma once

#include <string>

#include "cpu/linalg/product.h"

namespace rush {

// False when no OpenBLAS was found. Opens it when first called.
bool has_openblas();

// The address of a Fortran routine (dgetrf), or null. Its integers are 32 bits wide.
void* fortran_routine(const std::string& name);

// Runs on the calling thread. Needs has_openblas(), operands that suit_blas, c.col == 1, sizes
// below 2^31.
void openblas_gemm(const Product<float>& p);
void openblas_gemm(const Product<double>& p);
void openblas_gemm(const Product<complex<float>>& p);
void openblas_gemm(const Product<complex<double>>& p);

// A matrix as BLAS takes it: one stride is 1, the other at least the length of what it skips.
template <class T>
bool suits_blas(const Matrix<T>& x, int64_t rows, int64_t cols) {
  return (x.col == 1 && x.row >= (cols > 1 ? cols : 1)) ||
         (x.row == 1 && x.col >= (rows > 1 ? rows : 1));
}

}  // namespace rush
