// process_group.h: the ranks that compute together, and the order of what they do.
//
// A group carries out one collective at a time, in the order in which they were issued. One that
// nobody waits for (async_op) goes to the group's thread. One that its caller waits for runs on the
// caller's thread when no other is on its way, which saves two switches between threads.
//
// Messages (send, recv) begin at once, on the caller's thread: two ranks that each send before they
// receive must not wait for each other. Those that nobody waits for are moved on by another thread,
// which the first of them starts.
//
// Operations on GPUs are queued in streams at once, by the caller (device_engine.h). A third thread
// looks whether they are done, and lets them end when they wait for a rank that will not come.
#pragma once

#include <deque>

#include "distributed/device_engine.h"
#include "distributed/judge.h"
#include "distributed/work.h"

namespace rush::distributed {

// What carries out a group's operations: on the host's tensors, and on those of GPUs.
struct RUSH_API Engines {
  std::unique_ptr<Engine> host = nullptr;
  std::unique_ptr<DeviceEngine> device = nullptr;
  bool serves_host = true, serves_device = false;  // a group of one rank serves without an engine
};

class RUSH_API ProcessGroup {
 public:
  // The store is the group's own part of one.
  ProcessGroup(std::shared_ptr<Store> store, Engines engines, int rank, int size, std::string name,
               Milliseconds timeout);
  ~ProcessGroup();

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& name() const { return name_; }
  Milliseconds timeout() const { return timeout_; }
  void set_timeout(Milliseconds timeout) { timeout_ = timeout; }
  const std::shared_ptr<Store>& store() const { return store_; }

  // Gives the collective its number. All ranks must issue the same in the same order. The
  // operation is prepared; called with the GIL, as the user's line is described.
  std::shared_ptr<Work> issue(Operation op, SourcePoint where);
  // Carries the work out, here or on the group's thread. Returns at once if `async`, else raises
  // what went wrong. Called without the GIL.
  void run(const std::shared_ptr<Work>& work, bool async);
  // Several messages on a GPU, as one.
  void run_batch(const std::vector<std::shared_ptr<Work>>& works);
  // Connects the ranks on a GPU, which the first operation there would do otherwise.
  void connect(int device);

  void say_raised(const std::string& error);
  void fail(const std::string& fault);  // lets the collectives of all ranks raise this
  void shut_down();  // leaves the group; what still waits fails. May be called again
  bool is_healthy() const { return !judge_ || !judge_->has_verdict(); }
  std::string verdict() const { return judge_ ? judge_->verdict() : ""; }
  std::deque<Entry> recorded() const { return recorder_.latest(512); }

 private:
  void serve();  // the thread
  void execute(Work& work) noexcept;
  void carry_out(Operation& op);
  std::string why(const BackendError& error);
  void wait_for_engine(const Operation& op, Transfer& transfer);
  void check_faults(const Operation& op, Clock::time_point now, Clock::time_point deadline);
  void check_time(const Operation& op, Clock::time_point now, Clock::time_point deadline);
  void finish(Work& work, std::exception_ptr failure) noexcept;
  void run_message(const std::shared_ptr<Work>& work, bool async);
  void move_messages();  // the other thread
  void check_served(const Operation& op) const;
  // On GPUs: process_group_device.cpp.
  void queue_on_device(const std::vector<std::shared_ptr<Work>>& works, bool as_batch);
  void watch_device();  // the third thread
  void watch_turn(std::vector<std::shared_ptr<Work>>& works);
  void break_device(const std::vector<std::shared_ptr<Work>>& works, std::exception_ptr why);
  void shut_device();

  std::shared_ptr<Store> store_;
  Engines engines_;
  const int rank_, size_;
  const std::string name_;
  Milliseconds timeout_;
  const int process_;  // a forked child has neither the threads nor the engine
  Recorder recorder_;
  const std::shared_ptr<Waiters> waiters_ = std::make_shared<Waiters>();
  std::unique_ptr<Judge> judge_;            // null: one rank
  Mutex queueing_{LockRank::ProcessGroup};  // held while something is queued on a GPU
  Mutex mutex_{LockRank::ProcessGroup};     // guards what follows
  std::condition_variable_any changed_;
  std::deque<std::shared_ptr<Work>> queue_;
  bool busy_ = false;  // somebody carries out a collective
  std::atomic<bool> closed_{false};
  struct Moving {
    std::shared_ptr<Work> work;
    std::unique_ptr<Transfer> transfer;
    Clock::time_point deadline;
  };
  std::vector<Moving> moving_;                  // new ones, for the other thread to take
  std::vector<std::shared_ptr<Work>> watched_;  // new ones, for the third thread to take
  std::atomic<bool> device_broken_{false};
  std::thread thread_, mover_, watcher_;
};

}  // namespace rush::distributed
