// fft.h: discrete Fourier transforms on the CPU.
//
// All tensors are contiguous and on the CPU; float32 or float64 and the complex types of these.
#pragma once

#include "core/tensor.h"

namespace rush {

// out = scale * transform of `in` along `dims` (not negative, none twice); both have one shape, and
// may be the same tensor. forward: the exponent is negative.
void fft_cpu(const Tensor& in, const Tensor& out, IntList dims, double scale, bool forward);
// Along the last dim: n real numbers to the first n / 2 + 1 complex ones of their transform.
void real_fft_cpu(const Tensor& in, const Tensor& out, double scale);
// Along the last dim: the first n / 2 + 1 numbers of a Hermitian sequence to n real ones, by the
// transform with a positive exponent.
void hermitian_fft_cpu(const Tensor& in, const Tensor& out, double scale);

}  // namespace rush
