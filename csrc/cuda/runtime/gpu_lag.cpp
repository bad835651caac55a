#include "cuda/runtime/gpu_lag.h"

#include <utility>

#include "cuda/runtime/stream.h"

namespace rush::cuda {

// Notes how far the queue is. Without an event nothing is noted, and has_passed_mark is true.
void GpuLag::mark(const Stream* stream) {
  if (device_ != stream->device) {
    if (mark_) driver().EventDestroy(std::exchange(mark_, nullptr));
    device_ = stream->device;
    if (driver().EventCreate(&mark_, kEventNoTiming) != kSuccess) mark_ = nullptr;
  }
  if (mark_) driver().EventRecord(mark_, stream->raw_handle());
}

bool GpuLag::has_passed_mark() const { return !mark_ || driver().EventQuery(mark_) != kNotReady; }

bool GpuLag::keeps_up(const Stream* stream) {
  if (keeps_up_) return true;
  if (since_look_++ == 0) mark(stream);
  if (since_look_ <= kLaunchesBehind) return false;
  since_look_ = looks_behind_ = 0;
  keeps_up_ = has_passed_mark();
  return keeps_up_;
}

void GpuLag::look(const Stream* stream) {
  const auto now = std::chrono::steady_clock::now();
  if (now - marked_ < kBehind) return;
  const bool paused = now - marked_ > 4 * kBehind;  // the program did something else
  looks_behind_ = paused || has_passed_mark() ? 0 : looks_behind_ + 1;
  if (looks_behind_ == kLooksToLeave) keeps_up_ = false;
  mark(stream);
  marked_ = now;
}

}  // namespace rush::cuda
