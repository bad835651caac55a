// winograd.h: convolutions of 3 by 3 kernels with fewer multiplications.
#pragma once

#include "core/export.h"
#include "device/nn/convolution.h"

namespace rush {

// Whether they are computed so: config.winograd.
RUSH_API bool uses_winograd();
RUSH_API void set_uses_winograd(bool on);

// False: it is for others to compute, and what was written means nothing.
bool convolve_tiles(ConvKind kind, const ConvShape& shape, const ConvTensors& t);

}  // namespace rush
