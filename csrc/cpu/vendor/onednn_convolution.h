// onednn_convolution.h: convolutions by oneDNN. The build picks onednn/convolution.cpp or
// no_onednn/convolution.cpp.
#pragma once

#include "device/nn/convolution.h"

namespace rush::onednn {

// float32, and bfloat16 where the processor has it; tensors contiguous or channels-last. False: not
// done, take another way.
bool run_convolution(ConvKind kind, const ConvShape& shape, const ConvTensors& t);

}  // namespace rush::onednn
