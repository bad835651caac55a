// multiply.h: one product by plain pointers, done by whoever does it fastest. See multiply.cpp.
#pragma once

#include "cpu/linalg/product.h"

namespace rush {

template <class T>
struct Multiply {
  using A = Accumulator<T>;

  // Any strides; m, n, k at least 1. Uses rush::num_threads() threads, one inside a parallel
  // region.
  static void product(const Product<T>& p);

  // y = beta * y + alpha * a @ x, with a (m, k).
  static void vector(int64_t m, int64_t k, const Matrix<const T>& a, const T* x, int64_t x_stride,
                     T* y, int64_t y_stride, A alpha, A beta);

  // The sum of a[i] * b[i].
  static A dot(int64_t n, const T* a, int64_t a_stride, const T* b, int64_t b_stride);
};

// c += a @ b for half types, without rounding; a is (m, k), b (k, n), and c's rows lie end to end.
template <class T>
void add_wide_product(int64_t m, int64_t n, int64_t k, Matrix<const T> a, Matrix<const T> b,
                      float* c);

}  // namespace rush
