// running.h: who listens to which thread: traces and recordings under way, found by the thread.
#pragma once

#include <array>
#include <atomic>
#include <thread>

#include "trace/stream.h"

namespace rush::jit {

// At most one per listener; an entry is written and read by its own thread. (Not a thread-local: of
// those there is little room, see cmake/flags.cmake.)
template <class T>
class Running {
 public:
  T* here() const {
    if (!stream::watches_this_thread()) return nullptr;
    const Entry* e = find(std::this_thread::get_id());
    return e ? e->thing : nullptr;
  }
  bool enter(std::thread::id thread, T* thing) {  // false: there are too many
    for (Entry& e : entries_) {
      std::thread::id nobody{};
      if (!e.thread.compare_exchange_strong(nobody, thread)) continue;
      e.thing = thing;
      return true;
    }
    return false;
  }
  void leave(std::thread::id thread) {
    if (Entry* e = const_cast<Entry*>(find(thread))) {
      e->thing = nullptr;
      e->thread.store({});
    }
  }

 private:
  struct Entry {
    std::atomic<std::thread::id> thread{};
    T* thing = nullptr;
  };
  const Entry* find(std::thread::id thread) const {
    for (const Entry& e : entries_) {
      if (e.thread.load() == thread) return &e;
    }
    return nullptr;
  }
  std::array<Entry, stream::kMostListeners> entries_;
};

}  // namespace rush::jit
