// work.h: a collective that may still be running.
#pragma once

#include <condition_variable>
#include <exception>

#include "core/mutex.h"
#include "distributed/operation.h"

namespace rush::distributed {

class RUSH_API Work {
 public:
  explicit Work(Operation op) : op_(std::move(op)) {}
  Operation& operation() { return op_; }

  // Waits until it is done; raises what it raised. False when `timeout` passed before.
  bool wait(Milliseconds timeout);
  bool is_completed() const;
  std::exception_ptr failure() const;  // null while it runs, and when it went well

  void finish(std::exception_ptr failure);  // for the group; null: it went well

 private:
  Operation op_;
  mutable Mutex mutex_{LockRank::Work};
  std::condition_variable_any finished_;
  bool completed_ = false;
  std::exception_ptr failure_;
};

}  // namespace rush::distributed
