// depthwise.h: convolutions of each channel by itself, channels-last, by kernels of our own.
#pragma once

#include "device/nn/convolution.h"

namespace rush::cuda {

// Whether the kernels serve it: two spatial dims, one filter per channel, not too large.
bool is_depthwise(const ConvShape& shape);
// All tensors lie channels-last (w, which has one input channel, is contiguous as well).
void convolve_depthwise(ConvKind kind, const ConvShape& shape, const ConvTensors& t);

}  // namespace rush::cuda
