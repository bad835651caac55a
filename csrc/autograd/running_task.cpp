#include "autograd/running_task.h"

#include <atomic>

namespace rush {
namespace {

std::atomic<int64_t> g_next_id{0};
constinit thread_local const RunningTask* t_current = nullptr;

}  // namespace

RunningTask::RunningTask(bool all_leaves, bool keeps_graph)
    : id_(g_next_id.fetch_add(1, std::memory_order_relaxed)),
      all_leaves_(all_leaves),
      keeps_graph_(keeps_graph) {}

void RunningTask::run_callbacks() const {
  for (size_t i = 0; i < at_end_.size(); ++i) {  // one may add another
    const std::function<void()> callback = std::move(at_end_[i]);
    callback();
  }
}

const RunningTask* RunningTask::current() { return t_current; }

RunningTask::Scope::Scope(const RunningTask* task) : outer_(t_current) { t_current = task; }
RunningTask::Scope::~Scope() { t_current = outer_; }

}  // namespace rush
