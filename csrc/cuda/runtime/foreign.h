// foreign.h: exchanging GPU memory with other libraries, in the order of both sides' streams.
//
// Streams are named by numbers, as DLPack and the CUDA array interface do: 1 is the default stream,
// 2 the one that each thread has of its own, others are the driver's handles.
#pragma once

#include <cstdint>

#include "core/export.h"

namespace rush::cuda {

// The number of this thread's stream on a device.
RUSH_API int64_t stream_token(int device);
// The other library's stream waits for what this thread's stream has queued.
RUSH_API void make_foreign_wait(int device, int64_t token);
// This thread's stream waits for what the other library's stream has queued.
RUSH_API void wait_for_foreign(int device, int64_t token);

// Calls release(context) once this thread's stream has passed what it has queued by now: at once if
// it has, else from some later call of this function or of release_passed(). The memory's owner
// would use it again in the order of a stream that knows nothing of ours.
RUSH_API void release_when_passed(int device, void (*release)(void*), void* context) noexcept;
RUSH_API void release_passed() noexcept;

// The device on which a pointer of any library lies.
RUSH_API int device_of_pointer(const void* p);

}  // namespace rush::cuda
