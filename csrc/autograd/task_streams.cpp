#include "autograd/task_streams.h"

#include <algorithm>
#include <unordered_map>

#include "core/mutex.h"

namespace rush {

std::atomic<int64_t> g_noted_streams{0};

namespace {

struct Noted {
  Mutex mutex{LockRank::Streams};
  std::unordered_map<const Node*, int64_t> streams;
};
Noted& noted() {
  static auto* n = new Noted;  // nodes die until the very end of the process
  return *n;
}

int64_t stream_id(const Node& node) {
  if (g_noted_streams.load(std::memory_order_relaxed) == 0) return 0;
  Noted& n = noted();
  std::lock_guard lock(n.mutex);
  const auto found = n.streams.find(&node);
  return found == n.streams.end() ? 0 : found->second;
}

}  // namespace

void note_stream(const Node& node, Device device) {
  const int64_t id = device_runtime(device).current_stream(device)->id;
  if (id == 0) return;
  Noted& n = noted();
  std::lock_guard lock(n.mutex);
  if (n.streams.insert_or_assign(&node, id).second)
    g_noted_streams.fetch_add(1, std::memory_order_relaxed);
}

void forget_stream_slow(const Node& node) noexcept {
  Noted& n = noted();
  std::lock_guard lock(n.mutex);
  if (n.streams.erase(&node)) g_noted_streams.fetch_sub(1, std::memory_order_relaxed);
}

// The caller's stream does not change during the pass, but this thread's does.
DeviceStream* TaskStreams::callers(Device device) const {
  for (const auto& [known, stream] : callers_)
    if (known == device) return stream;
  callers_.emplace_back(device, device_runtime(device).current_stream(device));
  return callers_.back().second;
}

void TaskStreams::see_queued(const Node& node, Device device) {
  DeviceStream* mine = callers(device);
  if (node.sequence() == kLeafSequence || stream_id(node) == mine->id) return;
  several_ = true;
  DeviceStream* stream = device_runtime(device).stream_by_id(device, stream_id(node));
  if (std::find(used_.begin(), used_.end(), stream) == used_.end()) used_.push_back(stream);
}

DeviceStream* TaskStreams::of(const Node& node) const {
  const ResultMeta* result = queued_result(node);
  if (!result) return nullptr;
  if (node.sequence() == kLeafSequence) return callers(result->device);
  return device_runtime(result->device).stream_by_id(result->device, stream_id(node));
}

DeviceStream* TaskStreams::at(const Node& node, const Tensor& grad) const {
  if (!device_traits(grad).asynchronous) return nullptr;
  DeviceStream* stream = of(node);
  return stream ? stream : callers(grad.device());
}

void TaskStreams::hand_over(const Tensor& grad, DeviceStream* from, DeviceStream* to) {
  if (!from || !to || from == to) return;
  device_runtime(to->place).wait_for(to, from);
  if (device_traits(grad).asynchronous && grad.storage()->home())
    device_runtime(grad).record_stream(*grad.storage(), to);
}

void TaskStreams::join() {
  for (DeviceStream* stream : used_)
    device_runtime(stream->place).wait_for(callers(stream->place), stream);
}

TaskStreams::Scope::Scope(DeviceStream* stream) {
  if (!stream) return;
  before_ = device_runtime(stream->place).current_stream(stream->place);
  device_runtime(stream->place).set_current_stream(stream);
}

TaskStreams::Scope::~Scope() {
  if (before_) device_runtime(before_->place).set_current_stream(before_);
}

}  // namespace rush
