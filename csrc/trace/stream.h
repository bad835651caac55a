// stream.h: the ops of a program as data. Whoever wants to know what runs (the profiler; a tracer)
// is a listener, and is told of the begin and the end of every op, of every node that backward
// runs, and of the ranges that programs name.
//
// - A thread is watched from watch_this_thread() on. New threads are not watched by themselves; the
//   engine's are, where the thread that called backward was.
// - Listeners are those of the process: each is told of all watched threads, by calls that come on
//   these threads. Nothing is locked while an event is told.
// - A thread that is watched and finds no listener left is not watched any more.
// - Unwatched threads pay nothing: the stream hangs on the bit that each op tests anyway.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string_view>

#include "autograd/node_observer.h"
#include "ops/framework/registry.h"

namespace rush {

enum class StreamKind : uint8_t { Op, Node, Range };

// One op, node or range. At the end listeners are shown the event of the begin, completed.
struct StreamEvent {
  StreamKind kind;
  NodeObserver::Part part{};       // Node
  bool failed = false;             // at the end: an exception leaves it
  uint32_t depth = 0;              // how many events of this thread are under way around it
  uint32_t modes = 0;              // core/modes.h, as they were at the begin
  SourcePoint source{};            // the user's line
  const OpEntry* entry = nullptr;  // Op
  const Value* args = nullptr;     // Op; at the end they may have been written to
  const Value* results = nullptr;  // Op, at the end, if it did not fail
  // Node. Of an Op, at the end: the node of its first result, if that was recorded.
  const Node* node = nullptr;
  std::string_view name{};  // Range; valid at the begin only
  uint64_t tag = 0;         // Range: what kind of range, by the one who named it
};

class RUSH_API StreamListener {
 public:
  virtual ~StreamListener() = default;
  // Called once per thread, on that thread, before its first event. `number` counts the threads
  // that were ever watched, from 1. What it returns comes with every event of the thread.
  virtual void* enter_thread(uint32_t number) noexcept = 0;
  // What begin returns comes back at the end. A listener that joins while events are under way is
  // not told of their ends; one that leaves is not told of anything more.
  virtual void* begin(void* thread, const StreamEvent& event) noexcept = 0;
  virtual void end(void* thread, void* begun, const StreamEvent& event) noexcept = 0;
};

namespace stream {

inline constexpr size_t kMostListeners = 4;
// The tag of ranges that are work of the library, as an op is: passes of deferred ops, replays.
inline constexpr uint64_t kStepTag = 2;

// From any thread. A listener that was removed may be told, on other threads, of the ends of events
// that it knows, and is kept alive as long.
RUSH_API void add_listener(std::shared_ptr<StreamListener> listener);
RUSH_API void remove_listener(const StreamListener* listener);

RUSH_API void watch_this_thread();
RUSH_API bool watches_this_thread();

// A range of this thread: 0 when nobody listens. Ranges may end in any order.
RUSH_API uint64_t begin_range(std::string_view name, uint64_t tag);
RUSH_API void end_range(uint64_t range, bool failed);

}  // namespace stream
}  // namespace rush
