#include "distributed/work.h"

#include <algorithm>

#include "core/interrupt.h"

namespace rush::distributed {

bool Work::wait(Milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      const auto step = std::min(deadline, Clock::now() + kInterruptInterval);
      if (finished_.wait_until(lock, step, [&] { return completed_; })) break;
    }
    if (Clock::now() >= deadline) return false;
    check_interrupt();
  }
  if (failure_) std::rethrow_exception(failure_);
  return true;
}

bool Work::is_completed() const {
  const std::lock_guard lock(mutex_);
  return completed_;
}

std::exception_ptr Work::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Work::finish(std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  if (completed_) return;
  completed_ = true;
  failure_ = std::move(failure);
  finished_.notify_all();
}

}  // namespace rush::distributed
