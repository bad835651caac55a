#include "autograd/task_streams.h"

#include <algorithm>
#include <unordered_map>

#include "core/mutex.h"
#include "cuda/runtime/memory.h"
#include "cuda/runtime/stream.h"

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

void note_stream(const Node& node, int device) {
  const int64_t id = cuda::current_stream(device)->id;
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
cuda::Stream* TaskStreams::callers(int device) const {
  for (const auto& [known, stream] : callers_)
    if (known == device) return stream;
  callers_.emplace_back(device, cuda::current_stream(device));
  return callers_.back().second;
}

void TaskStreams::see_gpu(const Node& node) {
  const int device = device_of(node);
  cuda::Stream* mine = callers(device);
  if (node.sequence() == kLeafSequence || stream_id(node) == mine->id) return;
  several_ = true;
  cuda::Stream* stream = cuda::stream_by_id(device, stream_id(node));
  if (std::find(used_.begin(), used_.end(), stream) == used_.end()) used_.push_back(stream);
}

cuda::Stream* TaskStreams::of(const Node& node) const {
  const int device = device_of(node);
  if (device < 0) return nullptr;
  if (node.sequence() == kLeafSequence) return callers(device);
  return cuda::stream_by_id(device, stream_id(node));
}

cuda::Stream* TaskStreams::at(const Node& node, const Tensor& grad) const {
  if (!grad.is_cuda()) return nullptr;
  cuda::Stream* stream = of(node);
  return stream ? stream : callers(grad.device().index);
}

void TaskStreams::hand_over(const Tensor& grad, cuda::Stream* from, cuda::Stream* to) {
  if (!from || !to || from == to) return;
  cuda::Event made;
  made.record(from);
  made.make_wait(to);
  if (grad.is_cuda() && grad.storage()->home()) cuda::record_stream(*grad.storage(), to);
}

void TaskStreams::join() {
  for (cuda::Stream* stream : used_) {
    cuda::Event end;
    end.record(stream);
    end.make_wait(callers(stream->device));
  }
}

TaskStreams::Scope::Scope(cuda::Stream* stream) {
  if (!stream) return;
  before_ = cuda::current_stream(stream->device);
  cuda::set_current_stream(stream);
}

TaskStreams::Scope::~Scope() {
  if (before_) cuda::set_current_stream(before_);
}

}  // namespace rush
