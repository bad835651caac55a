// cuda.h: the GPUs of this machine, for C++ programs.
#pragma once

#include "core/export.h"

namespace rush::cuda {

// Declared by cuda/runtime/device.h as well, which brings the driver's types along.
RUSH_API int device_count();
inline bool is_available() { return device_count() > 0; }

}  // namespace rush::cuda
