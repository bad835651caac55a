#include "distributed/process_group.h"

#include <sched.h>
#include <unistd.h>

#include "core/interrupt.h"

namespace rush::distributed {
namespace {

// How to wait for the engine: turns of giving the core away while it is probably worth it, then
// naps. The engine moves large tensors only while it is asked, so naps are short for a long time.
constexpr auto kYieldTime = std::chrono::milliseconds(20);
constexpr auto kShortNaps = std::chrono::seconds(1);

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

ProcessGroup::ProcessGroup(std::shared_ptr<Store> store, std::unique_ptr<Engine> engine, int rank,
                           int size, std::string name, Milliseconds timeout)
    : store_(std::move(store)),
      engine_(std::move(engine)),
      rank_(rank),
      size_(size),
      name_(std::move(name)),
      timeout_(timeout),
      process_(getpid()) {
  internal_assert(engine_ || size == 1, "a group of several ranks needs an engine");
  if (!engine_) return;
  judge_ = std::make_unique<Judge>(store_, rank, size, name_, recorder_);
  thread_ = std::thread([this] { serve(); });
}

ProcessGroup::~ProcessGroup() { shut_down(); }

std::shared_ptr<Work> ProcessGroup::issue(Operation op, SourcePoint where) {
  check(process_ == getpid(), ErrorKind::Runtime, name_of(op.kind),
        "the process group belongs to the process that this one was forked from");
  check(!closed_, ErrorKind::Value, name_of(op.kind), "the process group was destroyed");
  if (judge_ && judge_->has_verdict())
    throw BackendError(concat(name_of(op.kind), ": ", judge_->verdict()));
  check(op.kind != Collective::Broadcast || (op.root >= 0 && op.root < size_), ErrorKind::Value,
        "broadcast", "rank ", op.root, " is none of the group's ", size_);
  if (op.timeout.count() <= 0) op.timeout = timeout_;
  op.number = recorder_.issue(describe(op), where);
  return std::make_shared<Work>(std::move(op));
}

void ProcessGroup::run(const std::shared_ptr<Work>& work, bool async) {
  if (!engine_) {
    execute(*work);
    if (!async) work->wait(Milliseconds(0));
    return;
  }
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
  execute(*work);
  {
    const std::lock_guard lock(mutex_);
    busy_ = false;
    changed_.notify_all();
  }
  work->wait(Milliseconds(0));
}

void ProcessGroup::serve() {
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
  Operation& op = work.operation();
  std::exception_ptr failure;
  try {
    carry_out(op);
    complete(op, size_);
    recorder_.finish(op.number);
  } catch (const BackendError& error) {
    failure =
        std::make_exception_ptr(BackendError(concat(name_of(op.kind), ": ", error.message())));
  } catch (...) {  // Ctrl-C on the caller's thread, or no memory for the result
    failure = std::current_exception();
    if (judge_)
      judge_->report(concat("rank ", rank_, " was interrupted in #", op.number, " ", describe(op)));
  }
  if (failure) abandon(op);
  work.finish(failure);
}

void ProcessGroup::carry_out(Operation& op) {
  if (!engine_) {
    if (op.gathered.defined())
      std::memcpy(op.gathered.data(), op.buffer.data(), size_t(op.buffer.nbytes()));
    return;
  }
  if (judge_->has_verdict()) throw BackendError(judge_->verdict());
  try {
    engine_->start(op);
    wait_for_engine(op);
  } catch (const BackendError& error) {
    if (judge_->has_verdict()) throw BackendError(judge_->verdict());
    throw BackendError(judge_->explain(error.message()));
  }
}

void ProcessGroup::wait_for_engine(const Operation& op) {
  for (int turn = 0; turn < 32; ++turn)
    if (engine_->done()) return;
  const auto start = Clock::now(), deadline = start + op.timeout;
  while (!engine_->done()) {
    const auto now = Clock::now();
    if (judge_->has_verdict()) throw BackendError(judge_->verdict());
    if (closed_) throw BackendError("the process group was destroyed");
    if (now >= deadline) throw BackendError(judge_->report_timeout(op.number, op.timeout));
    if (now - start < kYieldTime) {
      sched_yield();
      continue;
    }
    check_interrupt(now);
    std::this_thread::sleep_for(now - start < kShortNaps ? std::chrono::microseconds(50)
                                                         : std::chrono::microseconds(500));
  }
}

void ProcessGroup::say_raised(const std::string& error) {
  if (judge_ && process_ == getpid()) judge_->say_raised(error);
}

void ProcessGroup::shut_down() {
  if (process_ != getpid()) return;
  if (!engine_) {
    closed_ = true;
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (closed_.exchange(true)) return;
    changed_.notify_all();
  }
  thread_.join();
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !busy_; });  // a caller's thread, which sees that it is over
  }
  judge_->leave();
}

}  // namespace rush::distributed
