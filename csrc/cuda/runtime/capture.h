// capture.h: is work being recorded into a CUDA graph instead of being done, and what follows.
//
// Note [Capturing]
// - While a stream is captured nothing queued on it runs: the host cannot wait for it, read from
//   it, or compute for it. Whatever would have to raises first, with the name of the op: once the
//   driver refuses a call itself, the whole capture is lost.
// - Kernels' arguments are frozen. What changes from replay to replay (random numbers, step counts)
//   is read from places on the device.
// - Memory comes from a pool of the graph's own (private_pool.h), whose addresses stay its own.
//   What a kernel reads and nobody in the graph writes (tables of pointers, seeds) must not lie
//   there, where an earlier tensor of the same replay may have been: Graph::constant.
// - The driver refuses calls that may wait (cuMemAlloc, cuEventQuery, ...) even where they have
//   nothing to do with the captured stream; RelaxedCapture says that we know.
#pragma once

#include <atomic>

#include "core/device.h"
#include "core/export.h"
#include "cuda/runtime/driver.h"

namespace rush::cuda {

class Graph;
class Stream;

RUSH_API extern std::atomic<int> g_captures;  // captures that are going on, in all threads
inline bool any_capture() { return g_captures.load(std::memory_order_relaxed) != 0; }

bool is_capturing_slow(const Stream* stream);
inline bool is_capturing(const Stream* stream) {
  return any_capture() && is_capturing_slow(stream);
}
// The graph that the stream's work goes into; null: it runs.
Graph* capture_of_slow(const Stream* stream);
inline Graph* capture_of(const Stream* stream) {
  return any_capture() ? capture_of_slow(stream) : nullptr;
}
// The same for this thread's stream on a device.
RUSH_API bool is_capturing_on(Device device);

// Raises when this thread is capturing: what follows would have to wait for the GPU.
RUSH_API void refuse_capture_slow(const char* what, const char* why);
inline void refuse_capture(const char* what, const char* why) {
  if (any_capture()) [[unlikely]]
    refuse_capture_slow(what, why);
}

class RelaxedCapture {
 public:
  RelaxedCapture() : active_(any_capture()) {
    if (active_) driver().ThreadExchangeCaptureMode(&mode_);
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  ~RelaxedCapture() {
    if (active_) driver().ThreadExchangeCaptureMode(&mode_);
  }

 private:
  bool active_;
  CUcaptureMode mode_ = kCaptureRelaxed;
};

// Copies host bytes to the device at once, beside whatever is queued or captured.
void upload_now(int device, void* to, const void* from, size_t nbytes);

}  // namespace rush::cuda
