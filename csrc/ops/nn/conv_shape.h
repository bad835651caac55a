// conv_shape.h: the sizes and numbers of a convolution's call as one ConvShape.
#pragma once

#include "device/nn/convolution.h"

namespace rush {

inline ConvShape conv_shape(IntList input, IntList weight, IntList output, IntList stride,
                            IntList padding, IntList dilation, int64_t groups) {
  ConvShape s{int(input.size()) - 2,
              input[0],
              input[1],
              output[1],
              groups,
              {1, 1, 1},
              {1, 1, 1},
              {1, 1, 1},
              {1, 1, 1},
              {0, 0, 0},
              {1, 1, 1}};
  for (size_t i = 0, at = size_t(3 - s.dims); i < size_t(s.dims); ++i, ++at) {
    s.input[at] = input[2 + i];
    s.output[at] = output[2 + i];
    s.kernel[at] = weight[2 + i];
    s.stride[at] = stride[i];
    s.padding[at] = padding[i];
    s.dilation[at] = dilation[i];
  }
  return s;
}

}  // namespace rush
