// gemm_kernels.h: our own serial kernels for products, compiled once per instruction set.
//
// They take any strides. Libraries beat `blocked` on large float and double matrices; it does the
// types that no library has, and everything where there is no library.
#pragma once

#include <cstddef>

#include "cpu/linalg/product.h"

namespace rush {

// `tiny` is meant for products with m, n and k up to this; it must not get more than 16.
template <class T>
inline constexpr int64_t kTinyProduct = is_complex_v<T> ? 6 : 16;

template <class T>
struct GemmKernels {
  using A = Accumulator<T>;
  void (*tiny)(const Product<T>& p);
  void (*blocked)(const Product<T>& p, void* scratch);
  size_t scratch_bytes;  // for `blocked`, aligned to 64
  // y[i] = beta * y[i] + alpha * (row i of a) @ x; x lies end to end and is widened already.
  void (*gemv)(int64_t m, int64_t k, Matrix<const T> a, const A* x, T* y, int64_t y_stride, A alpha,
               A beta);
  A (*dot)(int64_t n, const T* a, int64_t a_stride, const T* b, int64_t b_stride);
  // Both ways between a type and its accumulator, rows of n with any stride.
  void (*widen)(int64_t n, const T* from, int64_t stride, A* to);
  void (*finish_row)(int64_t n, const A* sums, A alpha, A beta, T* to, int64_t stride);
};

// The kernels for the processor at hand.
template <class T>
const GemmKernels<T>& gemm_kernels();

}  // namespace rush
