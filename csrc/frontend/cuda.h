// cuda.h: the GPUs of this machine, for C++ programs.
#pragma once

#include <cstdint>

#include "core/export.h"

namespace rush::cuda {

// Declared by cuda/runtime/device.h as well, which brings the driver's types along.
RUSH_API int device_count();
inline bool is_available() { return device_count() > 0; }

// The device that this thread means by "cuda".
RUSH_API int current_device();
// The same, and the driver's current context is that device's from here on: what a program launches
// itself goes there. -1: the device stays.
RUSH_API void use_device(int device);
// The driver's handle (cudaStream_t) of the stream that this thread's work on a device goes to; the
// device is used from here on, as by use_device. -1: the current device.
RUSH_API void* current_stream_handle(int device = -1);
// Waits for all work of a device.
RUSH_API void wait_for_device(int device = -1);

}  // namespace rush::cuda
