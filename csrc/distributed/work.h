// work.h: a collective that may still be running.
#pragma once

#include <condition_variable>
#include <exception>

#include "core/mutex.h"
#include "distributed/device_engine.h"

namespace rush::distributed {

class RUSH_API Work {
 public:
  explicit Work(Operation op) : op_(std::move(op)) {}
  Operation& operation() { return op_; }

  // Waits until it is done; raises what it raised. False when `timeout` passed before.
  bool wait(Milliseconds timeout);
  // The same for the host only where it must: of work on a GPU, this thread's stream waits.
  void wait_in_stream();
  bool is_completed() const;
  std::exception_ptr failure() const;  // null while it runs, and when it went well

  // For the group.
  void finish(std::exception_ptr failure);  // null: it went well
  void set_queued(std::shared_ptr<QueuedTransfer> transfer);
  std::shared_ptr<QueuedTransfer> queued() const;  // null: it does not run on a GPU, or not yet
  Clock::time_point deadline{};

 private:
  Operation op_;
  mutable Mutex mutex_{LockRank::Work};
  std::condition_variable_any finished_;
  bool completed_ = false;
  std::shared_ptr<QueuedTransfer> queued_;
  std::exception_ptr failure_;
};

}  // namespace rush::distributed
