#include "distributed/work.h"

#include <algorithm>
#include <thread>

#include "core/interrupt.h"

namespace rush::distributed {

bool Work::wait(Milliseconds timeout) {
  const Waiters::One here(*waiters_);
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

void Work::wait_in_stream() {
  constexpr auto kForever = std::chrono::hours(24 * 365);  // the group limits it
  // A barrier is for the host; and a group of one rank has nothing to queue.
  if (op_.device < 0 || op_.kind == Collective::Barrier) {
    wait(kForever);
    return;
  }
  while (!is_completed()) {
    const std::shared_ptr<QueuedTransfer> transfer = queued();
    if (transfer && transfer->is_queued()) return transfer->make_stream_wait();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    check_interrupt();
  }
  if (const auto why = failure()) std::rethrow_exception(why);
}

void Work::set_queued(std::shared_ptr<QueuedTransfer> transfer) {
  const std::lock_guard lock(mutex_);
  queued_ = std::move(transfer);
}

std::shared_ptr<QueuedTransfer> Work::queued() const {
  const std::lock_guard lock(mutex_);
  return queued_;
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
