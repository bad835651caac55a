// convolution_patches.h: convolutions as matrix products over unfolded patches.
#pragma once

#include "device/nn/convolution.h"

namespace rush {

// float32, float64, complex or int64, contiguous.
void convolve_patches(ConvKind kind, const ConvShape& shape, const ConvTensors& t);

}  // namespace rush
