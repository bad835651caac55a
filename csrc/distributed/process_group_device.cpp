// process_group_device.cpp: a group's operations on GPUs.
#include <thread>

#include "cuda/runtime/outside_fault.h"
#include "distributed/process_group.h"

namespace rush::distributed {
namespace {

constexpr auto kLook = std::chrono::milliseconds(1);
constexpr auto kLastMoment = std::chrono::seconds(3);  // for what is queued when a group is left

}  // namespace

void ProcessGroup::connect(int device) {
  Operation op;
  op.device = device;
  check_served(op);
  if (size_ == 1) return;
  const auto deadline = Clock::now() + timeout_;
  engines_.device->connect(device, [&] {
    if (judge_->has_verdict()) throw BackendError(judge_->verdict());
    if (Clock::now() >= deadline)
      throw BackendError(concat("init_process_group: not all ranks of ", name_,
                                " connected their GPUs within ", timeout_.count(), " ms"));
  });
}

void ProcessGroup::run_batch(const std::vector<std::shared_ptr<Work>>& works) {
  if (size_ > 1) return queue_on_device(works, true);
  for (const auto& work : works) execute(*work);
}

void ProcessGroup::queue_on_device(const std::vector<std::shared_ptr<Work>>& works, bool as_batch) {
  std::vector<Operation*> ops;
  for (const auto& work : works) {
    ops.push_back(&work->operation());
    work->deadline = Clock::now() + ops.back()->timeout;
  }
  {
    // Watched before it is queued: connecting and queueing may wait for other ranks, too.
    const std::lock_guard lock(mutex_);
    watched_.insert(watched_.end(), works.begin(), works.end());
    changed_.notify_all();
  }
  std::exception_ptr failure;
  try {
    if (judge_->has_verdict()) throw BackendError(judge_->verdict());
    if (as_batch || !ops[0]->is_message())
      engines_.device->connect(ops[0]->device,
                               [&] { check_faults(*ops[0], Clock::now(), works[0]->deadline); });
    const std::lock_guard lock(queueing_);
    const std::shared_ptr<QueuedTransfer> transfer =
        as_batch ? engines_.device->start_batch(ops) : engines_.device->start(*ops[0]);
    for (const auto& work : works) work->set_queued(transfer);
    return;
  } catch (const BackendError& error) {
    failure = std::make_exception_ptr(BackendError(why(error)));
  } catch (...) {
    failure = std::current_exception();
  }
  for (const auto& work : works) finish(*work, failure);
}

void ProcessGroup::watch_device() {
  std::vector<std::shared_ptr<Work>> mine;
  while (!closed_) {
    if (!mine.empty()) std::this_thread::sleep_for(kLook);
    {
      std::unique_lock lock(mutex_);
      if (mine.empty()) changed_.wait(lock, [&] { return !watched_.empty() || closed_; });
      mine.insert(mine.end(), watched_.begin(), watched_.end());
      watched_.clear();
    }
    watch_turn(mine);
  }
  const auto until = Clock::now() + kLastMoment;
  while (!mine.empty() && Clock::now() < until) {
    watch_turn(mine);
    std::this_thread::sleep_for(kLook);
  }
  if (!mine.empty())
    break_device(mine, std::make_exception_ptr(
                           BackendError("the process group was destroyed before this was done")));
}

// Takes those out that are done.
void ProcessGroup::watch_turn(std::vector<std::shared_ptr<Work>>& works) {
  const auto now = Clock::now();
  std::exception_ptr fault;
  std::erase_if(works, [&](const std::shared_ptr<Work>& work) {
    if (fault) return false;
    if (work->is_completed()) return true;  // it failed before it was queued
    try {
      const std::shared_ptr<QueuedTransfer> transfer = work->queued();
      if (transfer && transfer->done()) {
        finish(*work, nullptr);
        return true;
      }
      check_time(work->operation(), now, work->deadline);
    } catch (const BackendError& error) {
      fault = std::make_exception_ptr(BackendError(why(error)));
    } catch (const std::exception& error) {  // the driver's
      fault = std::make_exception_ptr(
          BackendError(judge_->report(concat("rank ", rank_, ": ", error.what()))));
    }
    return false;
  });
  if (!fault) return;
  break_device(works, fault);
  works.clear();
}

void ProcessGroup::break_device(const std::vector<std::shared_ptr<Work>>& works,
                                std::exception_ptr why) {
  device_broken_ = true;
  // Kernels that wait for other ranks end now, and those behind them compute with garbage.
  for (const auto& work : works) cuda::note_outside_fault(work->operation().device, why);
  for (const auto& work : works) finish(*work, why);
  engines_.device->abort();
}

void ProcessGroup::shut_device() {
  if (device_broken_ || judge_->has_verdict())
    engines_.device->abort();
  else
    engines_.device->close();
}

}  // namespace rush::distributed
