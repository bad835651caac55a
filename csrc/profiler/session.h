// session.h: one recording. A session listens to the stream (trace/stream.h) and keeps what it hears
// as events of fixed size, in buffers that belong to one thread each.
//
// A buffer is written by its thread and read by anyone, at any time: events do not move, a chunk's
// count says how many of them are there, and `end` is written last. An event that is still under
// way has none, and what its end would have told is not to be read.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/mutex.h"
#include "device/activity.h"
#include "profiler/inputs.h"
#include "profiler/memory_log.h"
#include "trace/stream.h"

namespace rush::profiler {

// What a session is asked to note; kNoOps: what devices do, and nothing else.
inline constexpr uint32_t kShapes = 1, kMemory = 2, kFlops = 4, kStacks = 8, kDevices = 16,
                          kNoOps = 32;

// The tag of a range that says that the host is about to wait for a device.
inline constexpr uint64_t kWaitTag = 3;

struct Event {
  int64_t begin = 0;            // ns of the steady clock
  std::atomic<int64_t> end{0};  // 0: under way
  StreamKind kind{};
  NodeObserver::Part part{};  // Node
  bool failed = false;
  bool costs = false;  // counts its own operations and bytes, so the ops inside do not
  uint32_t modes = 0;
  SourcePoint source;
  union {
    const OpEntry* entry = nullptr;  // Op
    const std::string* name;         // Node, Range
  };
  uint64_t tag = 0;                    // Range
  const int64_t* inputs = nullptr;     // with kShapes; see inputs.h
  const SourcePoint* calls = nullptr;  // with kStacks
  uint32_t num_calls = 0;
  uint64_t node = 0, sequence = 0;  // the node that it recorded, or that it is; see the pair below
  int64_t flops = 0, bytes = 0;     // with kFlops
};
// A node is known by its address and its number together: addresses are used again, and numbers of
// different threads may be equal. The first event to end with a node recorded it.

// Memory of a session that is handed out in small pieces and freed as a whole.
class Arena {
 public:
  template <class T>
  T* take(size_t n) {
    return static_cast<T*>(take_bytes(n * sizeof(T)));
  }

 private:
  static constexpr size_t kBlock = size_t{64} << 10;
  void* take_bytes(size_t n);
  struct Block;
  struct Free {
    void operator()(Block* b) const;
  };
  std::vector<std::unique_ptr<Block, Free>> blocks_;
  size_t used_ = 0, size_ = 0;
};

class ThreadBuffer {
 public:
  explicit ThreadBuffer(uint32_t number);
  ~ThreadBuffer();
  ThreadBuffer(const ThreadBuffer&) = delete;
  ThreadBuffer& operator=(const ThreadBuffer&) = delete;

  Event* add();  // counted by publish()
  void publish() { last_->used.fetch_add(1, std::memory_order_release); }
  void for_each(const std::function<void(const Event&)>& f) const;

  const uint32_t number;
  const int64_t system_id;  // what the operating system calls the thread
  const int64_t handle;     // what the records of memory call it
  Arena arena;
  std::vector<int64_t> words;  // room in which inputs are packed
  int costing = 0;             // events under way that count their own cost
  const SourcePoint* last_calls = nullptr;
  uint32_t num_last_calls = 0;

 private:
  static constexpr uint32_t kEvents = 256;
  struct Chunk {
    Event events[kEvents];
    std::atomic<uint32_t> used{0};
    std::atomic<Chunk*> next{nullptr};
  };
  Chunk* const first_;
  Chunk* last_;
};

class RUSH_API Session final : public StreamListener {
 public:
  explicit Session(uint32_t wanted);
  ~Session() override;

  void stop_devices();  // waits for them; stop does it where this was not called
  void stop();          // sets the end; call it once, after the listener was removed
  int64_t begin() const { return begin_; }
  bool stopped() const { return end_ != 0; }
  int64_t end() const;                                // the time now, where it was not stopped
  int64_t wall_begin() const { return wall_begin_; }  // ns since 1970, at begin()
  uint32_t wanted() const { return wanted_; }
  MemoryLog* memory() const { return memory_.get(); }  // with kMemory
  // With kDevices: why nothing is known of them (empty: it is), and what they did, once stopped.
  const std::string& devices_missing() const { return devices_missing_; }
  const Activities& activities() const { return activities_; }
  // What records of memory call the threads, with their numbers.
  std::vector<std::pair<int64_t, uint32_t>> threads() const;
  // In order of the threads, of each in order of beginning.
  void for_each(const std::function<void(const ThreadBuffer&, const Event&)>& f) const;

  void* enter_thread(uint32_t number) noexcept override;
  void* begin(void* thread, const StreamEvent& event) noexcept override;
  void end(void* thread, void* begun, const StreamEvent& event) noexcept override;

 private:
  const std::string* intern(std::string name);
  void begin_op(ThreadBuffer& buffer, Event& e, const StreamEvent& event);

  const uint32_t wanted_;
  std::string devices_missing_;
  Activities activities_;
  std::atomic<bool> records_devices_;
  const int64_t begin_, wall_begin_;
  int64_t end_ = 0;
  std::unique_ptr<MemoryLog> memory_;
  mutable Mutex mutex_{LockRank::EventNames};  // guards the two below
  std::vector<std::unique_ptr<ThreadBuffer>> threads_;
  std::unordered_set<std::string> names_;
};

// Gets what records devices ready, which takes long the first time. Why it cannot be, or nothing.
RUSH_API std::string prepare_devices();

// Bytes that the buffers of all sessions hold.
RUSH_API int64_t live_bytes();

}  // namespace rush::profiler
