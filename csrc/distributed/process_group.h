// process_group.h: the ranks that compute together, and the order of what they do.
//
// A group carries out one collective at a time, in the order in which they were issued. One that
// nobody waits for (async_op) goes to the group's thread. One that its caller waits for runs on the
// caller's thread when no other is on its way, which saves two switches between threads.
//
// Messages (send, recv) begin at once, on the caller's thread: two ranks that each send before they
// receive must not wait for each other. Those that nobody waits for are moved on by another thread,
// which the first of them starts.
#pragma once

#include <deque>

#include "distributed/judge.h"
#include "distributed/work.h"

namespace rush::distributed {

class RUSH_API ProcessGroup {
 public:
  // Without an engine, for a group of one rank. The store is the group's own part of one.
  ProcessGroup(std::shared_ptr<Store> store, std::unique_ptr<Engine> engine, int rank, int size,
               std::string name, Milliseconds timeout);
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
  void finish(Work& work, std::exception_ptr failure) noexcept;
  void run_message(const std::shared_ptr<Work>& work, bool async);
  void move_messages();  // the other thread

  std::shared_ptr<Store> store_;
  std::unique_ptr<Engine> engine_;
  const int rank_, size_;
  const std::string name_;
  Milliseconds timeout_;
  const int process_;  // a forked child has neither the threads nor the engine
  Recorder recorder_;
  std::unique_ptr<Judge> judge_;
  Mutex mutex_{LockRank::ProcessGroup};  // guards what follows
  std::condition_variable_any changed_;
  std::deque<std::shared_ptr<Work>> queue_;
  bool busy_ = false;  // somebody carries out a collective
  std::atomic<bool> closed_{false};
  struct Moving {
    std::shared_ptr<Work> work;
    std::unique_ptr<Transfer> transfer;
    Clock::time_point deadline;
  };
  std::vector<Moving> moving_;  // new ones, for the other thread to take
  std::thread thread_, mover_;
};

}  // namespace rush::distributed
