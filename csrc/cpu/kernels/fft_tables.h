// fft_tables.h: the inner loops of Fourier transforms. Real and imaginary parts lie in arrays of
// their own.
#pragma once

#include <cstdint>

#include "cpu/kernels/tables.h"

namespace rush {

template <class T>
struct FftTable {
  // One pass of a transform with the factor `radix`: for p < m, DFTs of `radix` elements that lie
  // m * inner apart, at `inner` places at once; the k-th result is rotated by the twiddle of (p, k)
  // and goes to (radix * p + k) * inner. twiddles: cos and sin of (p, k = 1 ...). roots: cos and
  // sin of 2 pi k / radix, read for factors that have no loop of their own.
  void (*pass)(int64_t radix, const T* xr, const T* xi, T* yr, T* yi, int64_t m, int64_t inner,
               const T* twiddles, const T* roots);
  // Complex numbers taken apart and put together again, scaled.
  void (*split)(const T* in, T* re, T* im, int64_t n);
  void (*join)(const T* re, const T* im, T* out, int64_t n, T scale);
  // (re, im) *= (wr, wi)
  void (*turn)(T* re, T* im, const T* wr, const T* wi, int64_t n);
  // b (cols, rows) = a (rows, cols) transposed.
  void (*transpose)(const T* a, int64_t lda, T* b, int64_t ldb, int64_t rows, int64_t cols);
};

template <Isa isa, class T>
const FftTable<T>* fft_table();

}  // namespace rush
