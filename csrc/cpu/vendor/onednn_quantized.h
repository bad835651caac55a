// onednn_quantized.h: products and convolutions of 8-bit integers by oneDNN. The build picks
// onednn/quantized.cpp or no_onednn/quantized.cpp, whose functions answer false.
#pragma once

#include "device/nn/quantized.h"

namespace rush::onednn {

// Are sums of 8-bit products exact whatever the numbers are (VNNI, AMX)? Without such instructions
// products are added in pairs of 16 bits, which overflow unless one side is unsigned with 7 bits.
bool adds_bytes_exactly();

struct IntegerProduct {
  const void* x;   // (m, k) uint8 or int8, end to end
  bool is_signed;  // x
  Steps of_x;
  const IntegerWeight& w;  // (n, k)
  int64_t m, n, k;
  bool relu;
  void* out;        // (m, n), end to end
  DType out_type;   // float32, uint8, int8
  Steps of_out;     // not of float32
  bool accumulate;  // float32: onto what out holds; neither bias nor relu then
};
// False: not done, take another way.
bool multiply_integers(const IntegerProduct& p);

// As QuantizedLoops::convolve, with x and out of `dims` + 2 sizes whose channels lie last.
bool convolve_integers(ConvKind kind, const ConvShape& shape, const Tensor& x, Steps of_x,
                       const IntegerWeight& w, bool relu, const Tensor& out, Steps of_out);

}  // namespace rush::onednn
