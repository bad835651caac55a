// gpu_lag.h: does a GPU wait for the host, or is it behind?
//
// It is asked now and then: is done what was queued so long, or so many launches, before? A GPU that is
// further behind works whatever the host does, and will while it is found out that it has caught up.
#pragma once

#include <chrono>

#include "cuda/runtime/driver.h"

namespace rush::cuda {

class Stream;

class GpuLag {
 public:
  bool keeps_up() const { return keeps_up_; }
  // Before a launch: the same, after a look if it is time for one.
  bool keeps_up(const Stream* stream);
  // Behind a batch that was queued.
  void look(const Stream* stream);

 private:
  static constexpr auto kBehind = std::chrono::milliseconds(5);
  static constexpr int kLaunchesBehind = 64, kLooksToLeave = 3;

  void mark(const Stream* stream);
  bool has_passed_mark() const;

  bool keeps_up_ = true;
  int looks_behind_ = 0, since_look_ = 0;
  std::chrono::steady_clock::time_point marked_{};  // when, by look()
  CUevent mark_ = nullptr;                          // what was queued when it was recorded
  int device_ = -1;                                 // the mark's
};

}  // namespace rush::cuda
