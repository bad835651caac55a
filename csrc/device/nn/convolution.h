// convolution.h: convolutions on a device, and the two products that their gradients are.
//
// With y = conv(x, w), linear in x and in w:
//   Forward     y from x and w (plus a bias)
//   InputGrad   x's gradient from y's and w: also what a transposed convolution computes
//   WeightGrad  w's gradient from x and y's gradient
// Each is the derivative of the other two, so these three serve all orders of differentiation.
#pragma once

#include <array>

#include "device/table.h"

namespace rush {

enum class ConvKind : uint8_t { Forward, InputGrad, WeightGrad };

// One to three spatial dims, the missing ones in front of size 1. `padding` holds before each dim;
// what is read beyond the end follows from the sizes.
struct ConvShape {
  int dims;  // how many spatial dims the tensors have
  int64_t batch, channels, out_channels, groups;
  std::array<int64_t, 3> input, output, kernel, stride, padding, dilation;

  int64_t input_points() const { return input[0] * input[1] * input[2]; }
  int64_t output_points() const { return output[0] * output[1] * output[2]; }
  int64_t kernel_points() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t group_channels() const { return channels / groups; }
  int64_t group_out_channels() const { return out_channels / groups; }
  // Each output point reads just the input point of the same place.
  bool is_pointwise() const {
    return kernel_points() == 1 && input == output && padding == std::array<int64_t, 3>{} &&
           stride == std::array<int64_t, 3>{1, 1, 1};
  }
};

// The tensors of one convolution; the kind says which one is written. All have one dtype, any but
// bool, and any strides.
struct ConvTensors {
  Tensor x, w, bias, y;  // bias: (out_channels), of Forward only, may be undefined

  Tensor& written(ConvKind kind) {
    return kind == ConvKind::Forward ? y : kind == ConvKind::InputGrad ? x : w;
  }
  const Tensor& written(ConvKind kind) const {
    return const_cast<ConvTensors*>(this)->written(kind);
  }
};

struct ConvolutionLoops {
  // What is written has elements, and what is added up, too. False: not done, and the device has
  // no way to do it.
  bool (*convolve)(ConvKind kind, const ConvShape& shape, const ConvTensors& t) = nullptr;
  // Are images of these sizes, of float32 or a half type, faster with the channels last?
  bool (*prefers_channels_last)(IntList sizes) = nullptr;
  // Forward of float32 with a bias, and relu, by one launch that gives the bits of both ops. False: not
  // done, there is no such launch. Null: the device has none.
  bool (*convolve_with_relu)(const ConvShape& shape, const ConvTensors& t) = nullptr;
};
inline constinit DeviceTable<ConvolutionLoops> convolution_loops;

}  // namespace rush
