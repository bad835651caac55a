// Note [Logs and forks]
// Blocks come and go on all threads, under whatever locks their owners hold, and a process may be
// forked at any of these moments. So the logs are guarded by a flag that is held for a few
// instructions, and that the child of a fork simply lowers; it also stops listening, as the logs
// are the parent's.
#include "profiler/memory_log.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <new>

#include "core/source.h"

namespace rush::profiler {
namespace {

class Flag {
 public:
  void lock() noexcept {
    while (raised_.test_and_set(std::memory_order_acquire)) raised_.wait(true);
  }
  void unlock() noexcept {
    raised_.clear(std::memory_order_release);
    raised_.notify_one();
  }

 private:
  std::atomic_flag raised_;
};

Flag g_flag;
std::vector<MemoryLog*>& logs() {
  static auto& all = *new std::vector<MemoryLog*>;
  return all;
}

void in_child() {
  g_flag.unlock();
  logs().clear();
  set_memory_listener(nullptr);
}

int64_t now() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

MemoryRecord record_of(Device device, const void* block, int64_t change, int64_t flags) {
  const SourcePoint line = source_here();
  return {.time = now(),
          .address = reinterpret_cast<int64_t>(block),
          .change = change,
          .thread = int64_t(pthread_self()),
          .device = int64_t(device.type) * 256 + std::max<int64_t>(device.index, 0) + flags,
          .source = int64_t(uint64_t{line.code} << 32 | line.offset)};
}

}  // namespace

MemoryLog::MemoryLog(size_t limit) : limit_(limit) {
  [[maybe_unused]] static const int once = pthread_atfork(nullptr, nullptr, in_child);
  {
    const std::lock_guard lock(g_flag);
    logs().push_back(this);
  }
  set_memory_listener(listen);
}

void MemoryLog::stop() noexcept {
  bool last = false;
  {
    const std::lock_guard lock(g_flag);
    last = std::erase(logs(), this) != 0 && logs().empty();
  }
  if (last) set_memory_listener(nullptr);
}

void MemoryLog::listen(Device device, const void* block, int64_t change) noexcept {
  const MemoryRecord record = record_of(device, block, change, 0);
  const std::lock_guard lock(g_flag);
  for (MemoryLog* log : logs()) log->add(record);
}

void MemoryLog::mark(const Storage& storage, int64_t kind) noexcept {
  if (storage.is_foreign()) return;  // another library's memory was never told of
  MemoryRecord record = record_of(storage.device(), block_of(storage), kind, kMark);
  record.thread = int64_t(storage.nbytes());
  const std::lock_guard lock(g_flag);
  add(record);
}

void MemoryLog::add(const MemoryRecord& record) {
  if (full_) return;
  if (used_ == kRecords) {
    try {
      chunks_.push_back(std::make_unique<Chunk>());
    } catch (const std::bad_alloc&) {
      full_ = true;
      return;
    }
    used_ = 0;
    if ((chunks_.size() - 1) * kRecords > limit_) chunks_.pop_front();
  }
  (*chunks_.back())[used_++] = record;
}

std::vector<MemoryRecord> MemoryLog::records() const {
  std::vector<MemoryRecord> all;
  const std::lock_guard lock(g_flag);
  for (size_t i = 0; i < chunks_.size(); ++i) {
    const auto begin = chunks_[i]->begin();
    all.insert(all.end(), begin, begin + ptrdiff_t(i + 1 < chunks_.size() ? kRecords : used_));
  }
  return all;
}

}  // namespace rush::profiler
