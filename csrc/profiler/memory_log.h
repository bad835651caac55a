// memory_log.h: every block of tensor memory that came or went while it recorded, in order of time.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <vector>

#include "core/memory_listener.h"

namespace rush::profiler {

// Six words each, so that they can be handed on as they are: ns of the steady clock; the block's
// address; bytes, below zero when it is freed; pthread_self(); type * 256 + index of the device; the
// line, as code * 2^32 + offset of its SourcePoint (0: none). A mark has kMark added to the device,
// what the block is said to be in place of bytes, and the storage's bytes in place of the thread.
struct MemoryRecord {
  int64_t time, address, change, thread, device, source;
};
inline constexpr int64_t kMark = 1 << 16;

class RUSH_API MemoryLog {
 public:
  // With a limit it keeps about as many records, the last ones.
  explicit MemoryLog(size_t limit = SIZE_MAX);
  ~MemoryLog() { stop(); }
  MemoryLog(const MemoryLog&) = delete;
  MemoryLog& operator=(const MemoryLog&) = delete;

  void stop() noexcept;  // may be called again
  // Says what the block is that lies behind a storage, at this moment.
  void mark(const Storage& storage, int64_t kind) noexcept;
  std::vector<MemoryRecord> records() const;

 private:
  static constexpr size_t kRecords = 4096;
  using Chunk = std::array<MemoryRecord, kRecords>;

  static void listen(Device device, const void* block, int64_t change) noexcept;
  void add(const MemoryRecord& record);

  const size_t limit_;
  std::deque<std::unique_ptr<Chunk>> chunks_;
  size_t used_ = kRecords;  // of the last one
  bool full_ = false;       // there was no memory for more
};

}  // namespace rush::profiler
