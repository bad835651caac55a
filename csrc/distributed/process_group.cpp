#include "distributed/process_group.h"

#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>

#include "core/interrupt.h"
#include "core/threads.h"

namespace rush::distributed {
namespace {

// How to wait for the engine: turns of giving the core away while it is probably worth it, then
// naps. The engine moves large tensors only while it is asked, so naps are short for a long time.
constexpr auto kYieldTime = std::chrono::milliseconds(20);
constexpr auto kShortNaps = std::chrono::seconds(1);
// Moving data takes a while; asking in vain does not.
constexpr auto kWorked = std::chrono::microseconds(5);
// A processor that was given away comes back at once, unless others compute on it: for whole time
// slices, in which the other ranks wait for this one. Then asking for a moment, in which a rank
// that computes elsewhere answers, and napping is shorter than giving it away.
constexpr auto kTimeSlice = std::chrono::microseconds(500);
constexpr auto kMoment = std::chrono::microseconds(50);
constexpr int kForgetCrowd = 64;  // operations
constexpr auto kShortNap = std::chrono::microseconds(50), kLongNap = std::chrono::microseconds(500);
// While nobody waits, the caller computes, and asking takes a processor from it: a loop of two
// threads waits for the one that was put aside. What is there to move is moved without a pause.
constexpr auto kUnhurriedNap = std::chrono::microseconds(200);
constexpr unsigned long kPunctual = 1000;  // ns that naps may last longer; 50000 without it

// Tensors of works that failed: the engine may still write into them, whenever it likes.
std::deque<Operation>& abandoned() {
  static auto* list = new std::deque<Operation>;
  return *list;
}

void abandon(const Operation& op) {
  static Mutex mutex{LockRank::Work};
  const std::lock_guard lock(mutex);
  abandoned().push_back(op);
}

}  // namespace

ProcessGroup::ProcessGroup(std::shared_ptr<Store> store, Engines engines, int rank, int size,
                           std::string name, Milliseconds timeout)
    : store_(std::move(store)),
      engines_(std::move(engines)),
      rank_(rank),
      size_(size),
      name_(std::move(name)),
      timeout_(timeout),
      process_(getpid()) {
  internal_assert(engines_.host || engines_.device || size == 1,
                  "a group of several ranks needs an engine");
  if (size == 1) return;
  judge_ = std::make_unique<Judge>(store_, rank, size, name_, recorder_);
  if (engines_.host) thread_ = std::thread([this] { serve(); });
  if (engines_.device) watcher_ = std::thread([this] { watch_device(); });
}

ProcessGroup::~ProcessGroup() { shut_down(); }

std::shared_ptr<Work> ProcessGroup::issue(Operation op, SourcePoint where) {
  check(process_ == getpid(), ErrorKind::Runtime, name_of(op.kind),
        "the process group belongs to the process that this one was forked from");
  check(!closed_, ErrorKind::Value, name_of(op.kind), "the process group was destroyed");
  if (judge_ && judge_->has_verdict())
    throw BackendError(concat(name_of(op.kind), ": ", judge_->verdict()));
  check_served(op);
  const bool anybody = op.kind == Collective::Recv && op.root == kAnySource && op.device < 0;
  check(op.root != kAnySource || op.device < 0, ErrorKind::Value, name_of(op.kind),
        "on a GPU the source must be named: NCCL cannot receive from whoever sends");
  check(anybody || (op.root >= 0 && op.root < size_), ErrorKind::Value, name_of(op.kind), "rank ",
        op.root, " is none of the group's ", size_);
  check(!op.is_message() || (op.root != rank_ && size_ > 1), ErrorKind::Value, name_of(op.kind),
        "the other rank must be another one, got ", op.root, " on rank ", rank_, " of ", size_);
  if (op.timeout.count() <= 0) op.timeout = timeout_;
  op.number = op.is_message() ? recorder_.issue_message(describe(op), op.root, where)
                              : recorder_.issue(describe(op), where);
  return std::make_shared<Work>(std::move(op), waiters_);
}

void ProcessGroup::check_served(const Operation& op) const {
  const bool host = op.device < 0;
  check(host ? engines_.serves_host : engines_.serves_device, ErrorKind::Runtime, name_of(op.kind),
        name_, " has no backend for ", host ? "CPU" : "CUDA",
        " tensors; \"cpu:gloo,cuda:nccl\" serves both");
}

void ProcessGroup::run(const std::shared_ptr<Work>& work, bool async) {
  if (size_ == 1) {
    execute(*work);
    if (!async) work->wait(Milliseconds(0));
    return;
  }
  if (work->operation().device >= 0) {
    queue_on_device({work}, false);
    if (!async) work->wait_in_stream();
    return;
  }
  if (work->operation().is_message()) return run_message(work, async);
  {
    std::unique_lock lock(mutex_);
    if (async || busy_ || !queue_.empty()) {
      queue_.push_back(work);
      changed_.notify_all();
      lock.unlock();
      if (!async) work->wait(std::chrono::hours(24 * 365));  // the group's thread limits it
      return;
    }
    busy_ = true;
  }
  {
    const Waiters::One here(*waiters_);
    execute(*work);
  }
  {
    const std::lock_guard lock(mutex_);
    busy_ = false;
    changed_.notify_all();
  }
  work->wait(Milliseconds(0));
}

void ProcessGroup::serve() {
  prctl(PR_SET_TIMERSLACK, kPunctual, 0, 0, 0);
  const OneThread alone;  // a team of its own would want the processors on which backward computes
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return (!queue_.empty() && !busy_) || closed_; });
    if (closed_) break;
    const std::shared_ptr<Work> work = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    execute(*work);
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
  const auto destroyed = BackendError("the process group was destroyed before this could run");
  for (const auto& work : queue_) work->finish(std::make_exception_ptr(destroyed));
  queue_.clear();
}

void ProcessGroup::execute(Work& work) noexcept {
  std::exception_ptr failure;
  try {
    carry_out(work.operation());
  } catch (...) {
    failure = std::current_exception();
  }
  finish(work, failure);
}

// Hands the results out, or says what went wrong. An error of the engine's is explained before.
void ProcessGroup::finish(Work& work, std::exception_ptr failure) noexcept {
  Operation& op = work.operation();
  try {
    if (failure) std::rethrow_exception(failure);
    if (!work.queued()) complete(op, size_);
    if (!op.is_message()) recorder_.finish(op.number);
  } catch (const BackendError& error) {
    failure =
        std::make_exception_ptr(BackendError(concat(name_of(op.kind), ": ", error.message())));
  } catch (...) {  // Ctrl-C on the caller's thread, or no memory for the result
    failure = std::current_exception();
    if (judge_)
      judge_->report(concat("rank ", rank_, " was interrupted in #", op.number, " ", describe(op)));
  }
  if (op.is_message()) recorder_.finish_message(op.number);
  if (failure) abandon(op);
  work.finish(failure);
}

void ProcessGroup::carry_out(Operation& op) {
  if (size_ == 1) return copy_to_itself(op);
  if (judge_->has_verdict()) throw BackendError(judge_->verdict());
  try {
    const std::unique_ptr<Transfer> transfer = engines_.host->start(op);
    wait_for_engine(op, *transfer);
  } catch (const BackendError& error) {
    throw BackendError(why(error));
  }
}

// What is behind an error of the engine's.
std::string ProcessGroup::why(const BackendError& error) {
  if (judge_->has_verdict()) return judge_->verdict();
  if (closed_) return error.message();
  const bool known = dynamic_cast<const KnownFault*>(&error) != nullptr;
  return known ? judge_->report(concat("rank ", rank_, ": ", error.message()))
               : judge_->explain(error.message());
}

void ProcessGroup::wait_for_engine(const Operation& op, Transfer& transfer) {
  static std::atomic<int> crowded{0};  // for so many operations
  for (int turn = 0; turn < 32; ++turn)
    if (transfer.done()) return;
  const auto start = Clock::now(), deadline = start + op.timeout;
  if (crowded > 0) --crowded;
  auto worked = start;  // when it last moved something, or began to ask again
  for (auto asked = start; !transfer.done(); asked = Clock::now()) {
    const auto now = Clock::now();
    check_faults(op, now, deadline);
    check_interrupt(now);
    if (now - asked > kWorked) worked = now;
    const bool hurried = waiters_->any();
    if (now - worked < (hurried && crowded > 0 ? kMoment : kWorked)) continue;
    if (hurried && now - start < kYieldTime && crowded <= 0) {
      sched_yield();
      if (Clock::now() - now > kTimeSlice) crowded = kForgetCrowd;
      continue;
    }
    const auto nap = hurried ? kShortNap : kUnhurriedNap;
    std::this_thread::sleep_for(now - start < kShortNaps ? nap : kLongNap);
    worked = Clock::now();
  }
}

void ProcessGroup::check_faults(const Operation& op, Clock::time_point now,
                                Clock::time_point deadline) {
  if (closed_) throw BackendError("the process group was destroyed");
  check_time(op, now, deadline);
}

void ProcessGroup::check_time(const Operation& op, Clock::time_point now,
                              Clock::time_point deadline) {
  if (judge_->has_verdict()) throw BackendError(judge_->verdict());
  if (now >= deadline)
    throw BackendError(op.is_message() ? judge_->report_message_timeout(op.number, op.timeout)
                                       : judge_->report_timeout(op.number, op.timeout));
}

void ProcessGroup::run_message(const std::shared_ptr<Work>& work, bool async) {
  if (!async) {
    const Waiters::One here(*waiters_);
    execute(*work);
    work->wait(Milliseconds(0));
    return;
  }
  std::unique_ptr<Transfer> transfer;
  try {
    if (judge_->has_verdict()) throw BackendError(judge_->verdict());
    transfer = engines_.host->start(work->operation());
  } catch (...) {
    return finish(*work, std::current_exception());
  }
  const std::lock_guard lock(mutex_);
  if (!mover_.joinable() && !closed_) mover_ = std::thread([this] { move_messages(); });
  moving_.push_back({work, std::move(transfer), Clock::now() + work->operation().timeout});
  changed_.notify_all();
}

void ProcessGroup::move_messages() {
  std::vector<Moving> mine;
  auto busy_since = Clock::now();
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (mine.empty()) changed_.wait(lock, [&] { return !moving_.empty() || closed_; });
      if (!moving_.empty()) busy_since = Clock::now();
      for (Moving& m : moving_) mine.push_back(std::move(m));
      moving_.clear();
      if (mine.empty() && closed_) return;
    }
    const auto now = Clock::now();
    std::erase_if(mine, [&](Moving& m) {
      try {
        if (!m.transfer->done()) {
          check_faults(m.work->operation(), now, m.deadline);
          return false;
        }
        finish(*m.work, nullptr);
      } catch (const BackendError& error) {
        finish(*m.work, std::make_exception_ptr(BackendError(why(error))));
      } catch (...) {
        finish(*m.work, std::current_exception());
      }
      return true;
    });
    if (mine.empty()) continue;
    if (Clock::now() - busy_since < kYieldTime)
      sched_yield();
    else
      std::this_thread::sleep_for(kLongNap);
  }
}

void ProcessGroup::say_raised(const std::string& error) {
  if (judge_ && process_ == getpid()) judge_->say_raised(error);
}

void ProcessGroup::fail(const std::string& fault) {
  if (judge_ && process_ == getpid()) judge_->report(fault);
}

void ProcessGroup::shut_down() {
  if (process_ != getpid()) return;
  if (size_ == 1) {
    closed_ = true;
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (closed_.exchange(true)) return;
    changed_.notify_all();
  }
  for (std::thread* t : {&thread_, &mover_, &watcher_})
    if (t->joinable()) t->join();
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !busy_; });  // a caller's thread, which sees that it is over
  }
  if (engines_.device) shut_device();
  judge_->leave();
}

}  // namespace rush::distributed
