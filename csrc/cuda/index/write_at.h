// write_at.h: writes along one index.
#pragma once

#include "device/index.h"

namespace rush::cuda {

// dst[i + index * stride] = src[i], where there is one index, which nobody has checked; a launch
// that the next one may join. False: too large for it, and nothing was done.
bool write_at_one(const ScatterLines& lines);

}  // namespace rush::cuda
