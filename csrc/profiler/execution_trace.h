// execution_trace.h: ops, nodes of backward and ranges as a graph: which tensors go into each and
// come out of it, and what it runs inside of.
//
// Tensors and storages have numbers. They are known by their addresses, which are used again: what
// comes out of an op, did not go into it and was not numbered inside it is new.
#pragma once

#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/mutex.h"
#include "trace/stream.h"

namespace rush::profiler {

class RUSH_API ExecutionTrace final : public StreamListener {
 public:
  enum class Kind : uint8_t { Op, Evaluate, Apply, Range, Thread };
  struct Record {
    uint64_t id, parent;
    Kind kind;
    uint32_t thread;
    std::string name, overload;
    const OpEntry* entry = nullptr;
    std::string inputs,
        outputs;            // JSON: {"values": [...], "shapes": ..., "types": ..., "strides":}
    int64_t sequence = -1;  // of an op's node, or of the node
    uint64_t forward = 0;   // Apply: the op that recorded the node
    uint32_t forward_thread = 0;
    bool failed = false;
    std::vector<const void*>
        given;  // the tensors and storages of the arguments, to be compared only
  };

  ~ExecutionTrace() override;
  void* enter_thread(uint32_t number) noexcept override;
  void* begin(void* thread, const StreamEvent& event) noexcept override;
  void end(void* thread, void* begun, const StreamEvent& event) noexcept override;

  // What has ended since the last call, in that order. (Threads: when they first ran something.)
  std::vector<Record> take();

 private:
  struct Thread {
    uint32_t number;
    uint64_t id;
    std::vector<Record*> open;
  };
  class Columns;

  uint64_t number_of(const void* object, Record& record, bool given);

  Mutex mutex_{LockRank::EventNames};
  uint64_t last_id_ = 1;  // 1 is the process
  std::deque<Thread> threads_;
  std::unordered_map<const void*, uint64_t> objects_;
  // By node: the op that recorded it, and the thread that did.
  std::unordered_map<const Node*, std::pair<uint64_t, uint32_t>> recorded_;
  std::vector<Record> done_;
};

}  // namespace rush::profiler
