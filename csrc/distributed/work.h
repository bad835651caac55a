// work.h: a collective that may still be running.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>

#include "core/mutex.h"
#include "distributed/device_engine.h"

namespace rush::distributed {

// How many threads wait for works of a group: while none does, there is time.
class Waiters {
 public:
  bool any() const { return count_.load(std::memory_order_relaxed) > 0; }

  // Somebody waits, as long as this lives.
  class One {
   public:
    explicit One(Waiters& all) : all_(all) { all_.count_.fetch_add(1, std::memory_order_relaxed); }
    ~One() { all_.count_.fetch_sub(1, std::memory_order_relaxed); }
    One(const One&) = delete;
    One& operator=(const One&) = delete;

   private:
    Waiters& all_;
  };

 private:
  std::atomic<int> count_{0};
};

class RUSH_API Work {
 public:
  Work(Operation op, std::shared_ptr<Waiters> waiters)
      : op_(std::move(op)), waiters_(std::move(waiters)) {}
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
  std::shared_ptr<Waiters> waiters_;
  mutable Mutex mutex_{LockRank::Work};
  std::condition_variable_any finished_;
  bool completed_ = false;
  std::shared_ptr<QueuedTransfer> queued_;
  std::exception_ptr failure_;
};

}  // namespace rush::distributed
