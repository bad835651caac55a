// fft.h: discrete Fourier transforms on a device.
#pragma once

#include "device/table.h"

namespace rush {

// Tensors may lie in any way. Dims are not negative, and none is there twice.
struct FourierLoops {
  // out = scale * transform of x along dims; both have one shape. forward: the exponent is
  // negative.
  void (*complex)(const Tensor& x, const Tensor& out, IntList dims, double scale,
                  bool forward) = nullptr;
  // Real numbers to the first half of their transform along the last one of dims.
  void (*real)(const Tensor& x, const Tensor& out, IntList dims, double scale) = nullptr;
  // The first half, along the last one of dims, of a Hermitian transform to real numbers.
  void (*hermitian)(const Tensor& x, const Tensor& out, IntList dims, double scale) = nullptr;
};
extern DeviceTable<FourierLoops> fourier_loops;

}  // namespace rush
