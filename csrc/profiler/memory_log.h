// memory_log.h: every block of tensor memory that came or went while it recorded, in order of time.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <vector>

#include "core/memory_listener.h"

namespace rush::profiler {

// Six words each, so that they can be handed on as they are.
struct MemoryRecord {
  int64_t time;     // ns of the steady clock
  int64_t address;  // of the block
  int64_t change;   // bytes; below zero: freed. Of a mark: what the block is said to be
  int64_t thread;   // pthread_self(). Of a mark: the bytes of the storage
  int64_t device;   // type * 256 + index; a mark has kMark added
  int64_t source;   // the line: code * 2^32 + offset of its SourcePoint; 0 where there is none
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
